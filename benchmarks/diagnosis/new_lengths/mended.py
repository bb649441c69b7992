"""Sequences sorted by length, trained with a compiled loss."""

import json
import os
import time

import torch
import torch.nn as nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
batch, width = (64, 1024) if cuda else (2, 8)
steps = int(os.environ.get("STEPS", 20))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        a, b = self.inner(x).chunk(2, -1)
        return x + self.outer(a * torch.sigmoid(b))


def score(x, y, weight):
    error = torch.sqrt((x - y) ** 2 + 1e-3) - 0.03
    return (error * torch.sigmoid(weight)).sum(-1).mean()


if cuda:
    score = torch.compile(score, dynamic=True)


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    net = nn.Sequential(Gate(), Gate()).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    weight = torch.randn(width, device=device)
    lengths = [128 + 24 * (i // 4) for i in range(steps)]
    warmup = min(4, steps - 1)
    for step, length in enumerate(lengths):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        x = torch.randn(batch, length, width, device=device)
        loss = score(net(x), x.roll(1, 1), weight)
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
