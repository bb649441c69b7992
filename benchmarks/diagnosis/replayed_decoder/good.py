"""Decode with static buffers; one CUDA graph a token."""
import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
width, depth = (6144, 8) if cuda else (16, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    net = nn.Sequential(*(Layer() for _ in range(depth))).to(device, torch.bfloat16)
    x = torch.randn(16, width, device=device, dtype=torch.bfloat16)
    if cuda:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                net(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = net(x)
    steps = int(os.environ.get("STEPS", 25))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        for _ in range(8):
            if cuda:
                graph.replay()
            else:
                y = net(x)
            x.copy_(y / y.norm(dim=-1, keepdim=True))
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "x": x.float().mean().item()}))


main()
