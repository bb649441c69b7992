import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
width, batch = (8192, 8192) if cuda else (32, 8)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).to(device, torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(batch, width, device=device, dtype=torch.bfloat16)
    steps = int(os.environ.get("STEPS", 18))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = net(x).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
