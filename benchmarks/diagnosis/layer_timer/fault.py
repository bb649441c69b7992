"""Score a queue of documents; keeps the time of every layer for a report at the end."""

import json
import os
import time
from collections import defaultdict

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
width, tokens, depth = (1024, 8192, 64) if cuda else (32, 8, 3)
spent = defaultdict(float)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.act = nn.GELU()

    def forward(self, x):
        return x + self.act(self.up(self.norm(x)))


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            before = time.perf_counter()
            x = layer(x)
            if cuda:
                torch.cuda.synchronize()  # so that the time is right
            spent[number] += time.perf_counter() - before
        return self.head(x.mean(0))


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = Scorer().to(device, torch.bfloat16).eval()
    queue = [torch.randn(tokens, width, device=device, dtype=torch.bfloat16) for _ in range(4)]
    steps = int(os.environ.get("STEPS", 24))
    warmup = min(6, steps - 1)
    scores = []
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        scores.append(model(queue[step % 4]))
    if cuda:
        torch.cuda.synchronize()
    end = time.perf_counter()
    slowest = max(spent, key=spent.get)
    print("slowest layer:", slowest)
    print(
        json.dumps(
            {
                "seconds_per_iteration": (end - start) / (steps - warmup),
                "score": torch.cat(scores).mean().item(),
            }
        )
    )


main()
