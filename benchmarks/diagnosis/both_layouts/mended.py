"""A ConvNeXt-like stack on feature maps."""
import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
N, C, S, DEPTH = (64, 256, 56, 6) if cuda else (2, 8, 8, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(C)
        self.mix = nn.Linear(C, C)

    def forward(self, x):
        return x + self.mix(self.norm(x))


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    net = nn.Sequential(*(Block() for _ in range(DEPTH))).to(device, torch.bfloat16)
    x = torch.randn(N, C, S, S, device=device, dtype=torch.bfloat16)
    steps = int(os.environ.get("STEPS", 25))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        for _ in range(4):
            y = net(x.permute(0, 2, 3, 1).contiguous())
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "y": y.float().mean().item()}))


main()
