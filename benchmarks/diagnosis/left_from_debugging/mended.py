import json
import os

import time

import torch
import torch.nn.functional as F
from torch import nn

on_gpu = torch.cuda.is_available()
device = "cuda" if on_gpu else "cpu"
batch, dim, codes = (16384, 256, 4096) if on_gpu else (16, 8, 12)


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Parameter(torch.randn(codes, dim))

    def forward(self, z):
        distance = (z * z).sum(1, keepdim=True) - 2 * z @ self.book.T + (self.book * self.book).sum(1)
        nearest = distance.argmin(1)
        return self.book[nearest]


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.quantizer = Quantizer()
        self.decoder = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        z = self.encoder(x)
        e = self.quantizer(z)
        y = self.decoder(z + (e - z).detach())
        return F.mse_loss(y, x) + F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach())


torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
model = VQ().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(batch, dim, device=device)
steps = int(os.environ.get("STEPS", 20))
warmup = min(5, steps - 1)
for step in range(steps):
    if step == warmup:
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
    loss = model(x)
    opt.zero_grad()
    loss.backward()
    opt.step()
if on_gpu:
    torch.cuda.synchronize()
print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))
