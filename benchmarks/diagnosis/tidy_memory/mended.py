import json
import os
import time

import torch
from torch import nn

CUDA = torch.cuda.is_available()
device = torch.device("cuda" if CUDA else "cpu")


class UNet(nn.Module):
    """Two levels, enough to remove noise."""

    def __init__(self, c):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(8, c), nn.SiLU())
        self.down2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, 2, 1), nn.GroupNorm(8, 2 * c), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.GroupNorm(8, 2 * c), nn.SiLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.out = nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, x):
        a = self.down1(x)
        b = self.middle(self.down2(a))
        return self.out(torch.cat([a, self.up(b)], 1))


def main():
    torch.manual_seed(0)
    batch, side, channels = (32, 128, 64) if CUDA else (2, 16, 8)
    net = UNet(channels).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
    clean = torch.rand(batch, 3, side, side, device=device)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if CUDA:
                torch.cuda.synchronize()
            start = time.perf_counter()
        noise = torch.randn_like(clean)
        t = torch.rand(batch, 1, 1, 1, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            guess = net(clean * (1 - t) + noise * t)
            loss = nn.functional.mse_loss(guess, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if CUDA:
        torch.cuda.synchronize()
    print(
        json.dumps(
            {"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}
        )
    )


if __name__ == "__main__":
    main()
