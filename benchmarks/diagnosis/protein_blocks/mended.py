import json
import os
import time

import torch
from torch import nn
import torch.nn.functional as F

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
tokens, width, depth = (8192, 4096, 4) if cuda else (16, 32, 2)


def activation(x):
    return F.gelu(x, approximate="tanh")


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.b = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        return F.layer_norm(x, self.g.shape, self.g, self.b)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(width)
        self.a = nn.Linear(width, width // 2)
        self.b = nn.Linear(width // 2, width)
        self.norm2 = Norm(width)

    def forward(self, x):
        y = self.b(self.a(self.norm(x)))
        return x + self.norm2(activation(y))


def main():
    torch.manual_seed(0)
    net = nn.Sequential(*[Mixer() for _ in range(depth)]).to(device, torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(tokens, width, device=device, dtype=torch.bfloat16)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = net(x).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
