"""Forecast of 24 weather variables from 48 hours before."""

import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
hours, batch, hidden = (48, 128, 256) if cuda else (6, 4, 16)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(24, hidden)
        self.out = nn.Linear(hidden, 24)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], hidden)
        c = torch.zeros_like(h)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


def main():
    torch.manual_seed(2)
    model = Forecast().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(batch, hours, 24, device=device), torch.randn(batch, 24, device=device)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = nn.functional.mse_loss(model(x), y)
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


main()
