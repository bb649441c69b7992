import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
width, depth, batch = (384, 60, 4096) if cuda else (16, 4, 8)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.one = nn.Linear(width, width)
        self.two = nn.Linear(width, width)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(self.norm(x))))


def main():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = nn.Sequential(*(Residual() for _ in range(depth))).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=cuda)
    x = torch.randn(batch, width, device=device)
    goal = torch.randn(batch, width, device=device)
    n = int(os.environ.get("STEPS", 16))
    warmup = min(4, n - 1)
    for i in range(n):
        if i == warmup:
            if cuda:
                torch.cuda.synchronize()
            t = time.perf_counter()
        loss = (model(x) - goal).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - t) / (n - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
