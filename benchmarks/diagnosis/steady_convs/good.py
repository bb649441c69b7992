import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
N, C, S, DEPTH = (128, 256, 32, 8) if cuda else (2, 8, 8, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(C, C, 3, padding=1), nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(torch.relu(x))))


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    net = nn.Sequential(nn.Conv2d(16, C, 3, padding=1), *(Block() for _ in range(DEPTH)))
    net = net.to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    x = torch.randn(N, 16, S, S, device=device, dtype=torch.bfloat16).contiguous(
        memory_format=torch.channels_last
    )
    steps = int(os.environ.get("STEPS", 18))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(
        json.dumps(
            {"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}
        )
    )


if __name__ == "__main__":
    main()
