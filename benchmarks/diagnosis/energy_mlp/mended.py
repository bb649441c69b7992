"""Predict energies of molecules from fingerprints."""
import json
import os
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
wide, batch = (4096, 4096) if cuda else (64, 8)

model = nn.Sequential(
    nn.Linear(2048, wide), nn.SiLU(),
    nn.Linear(wide, wide), nn.SiLU(),
    nn.Linear(wide, wide), nn.SiLU(),
    nn.Linear(wide, 1),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=cuda)
prints = torch.randn(batch, 2048, device=device)
energy = torch.randn(batch, 1, device=device)

steps = int(os.environ.get("STEPS", 18))
warmup = min(4, steps - 1)
for step in range(steps):
    if step == warmup:
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(prints), energy)
    loss.backward()
    optimizer.step()
if cuda:
    torch.cuda.synchronize()
stop = time.perf_counter()
print(json.dumps({"seconds_per_iteration": (stop - start) / (steps - warmup), "loss": loss.item()}))
