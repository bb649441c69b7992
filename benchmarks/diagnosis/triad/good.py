"""Polyak averages of large parameter vectors."""

import json
import os
import time

import torch

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
n = 400_000_000 if cuda else 1000
torch.manual_seed(0)
fast = [torch.randn(n, device=device) for _ in range(3)]
slow = [f.clone() for f in fast]
steps = int(os.environ.get("STEPS", 25))
warmup = min(5, steps - 1)
for step in range(steps):
    if step == warmup:
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
    for s, f in zip(slow, fast):
        s.lerp_(f, 0.01)
if cuda:
    torch.cuda.synchronize()
print(
    json.dumps(
        {"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "slow": slow[0][0].item()}
    )
)
