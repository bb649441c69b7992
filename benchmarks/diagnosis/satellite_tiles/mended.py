import json
import os
import time

import torch
import torch.nn as nn

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
STEPS = int(os.environ.get("STEPS", 20))
WARM = min(4, STEPS - 1)


class Net(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.stem = nn.Conv2d(c, 64, 4, 4)
        self.body = nn.Sequential(
            *[nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU()) for _ in range(3)]
        )
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(self.body(self.stem(x)).mean((2, 3)))


torch.manual_seed(7)
side = 256 if cuda else 32
batch = 64 if cuda else 2
tiles = [torch.rand(batch, 12, side, side) for _ in range(4)]
if cuda:
    tiles = [t.pin_memory() for t in tiles]
labels = torch.randint(0, 10, (batch,), device=device)
net = Net().to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

for step in range(STEPS):
    if step == WARM:
        if cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
    x = tiles[step % 4].to(device, non_blocking=True)
    with torch.autocast(device.type, torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()

if cuda:
    torch.cuda.synchronize()
print(
    json.dumps({"seconds_per_iteration": (time.perf_counter() - begin) / (STEPS - WARM), "loss": loss.item()})
)
