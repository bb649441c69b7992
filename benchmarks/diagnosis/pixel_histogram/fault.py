import json
import os
import time

import torch

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
BINS = 32


def histogram(values):
    bins = (values * BINS).long().clamp_(0, BINS - 1).flatten()
    counts = torch.zeros(BINS, device=values.device)
    return counts.scatter_add_(0, bins, torch.ones_like(bins, dtype=torch.float32))


def equalize(images):
    counts = histogram(images)
    cdf = counts.cumsum(0) / counts.sum()
    return cdf[(images * (BINS - 1)).long()]


if __name__ == "__main__":
    torch.manual_seed(0)
    n, side = (16, 1024) if cuda else (2, 16)
    images = [torch.rand(n, side, side, device=device) ** 2 for _ in range(3)]
    kernel = torch.ones(1, 1, 5, 5, device=device) / 25
    steps = int(os.environ.get("STEPS", 24))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        flat = equalize(images[step % 3])
        smooth = torch.nn.functional.conv2d(flat[:, None], kernel, padding=2)
        score = (smooth[:, 0] - flat).abs().mean()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "score": score.item()}))
