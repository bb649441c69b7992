import json
import os
import time

import torch
import torch.nn as nn

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
B, T, H, D = (8, 2048, 16, 64) if CUDA else (2, 16, 2, 8)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(H * D, 3 * H * D)
        self.out = nn.Linear(H * D, H * D)
        self.register_buffer("mask", torch.tril(torch.ones(T, T, dtype=torch.bool)))

    def forward(self, x):
        q, k, v = self.qkv(x).view(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, H * D))


torch.manual_seed(0)
layers = nn.ModuleList(Attention() for _ in range(2)).to(DEVICE, torch.bfloat16)
opt = torch.optim.AdamW(layers.parameters(), lr=1e-5)
x = torch.randn(B, T, H * D, device=DEVICE, dtype=torch.bfloat16)
steps = int(os.environ.get("STEPS", 20))
warm = min(4, steps - 1)
for i in range(steps):
    if i == warm:
        if CUDA:
            torch.cuda.synchronize()
        began = time.perf_counter()
    y = x
    for layer in layers:
        y = y + layer(y)
    loss = (y.float() ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
if CUDA:
    torch.cuda.synchronize()
print(json.dumps({"seconds_per_iteration": (time.perf_counter() - began) / (steps - warm), "loss": loss.item()}))
