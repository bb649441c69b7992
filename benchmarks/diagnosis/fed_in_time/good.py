"""Train on batches that a prefetcher copies ahead."""
import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"


class Prefetcher:
    def __init__(self, batches, count):
        self.batches, self.count = batches, count
        self.stream = torch.cuda.Stream() if cuda else None

    def load(self, i):
        if not cuda:
            return self.batches[i % len(self.batches)]
        with torch.cuda.stream(self.stream):
            return self.batches[i % len(self.batches)].to(device, non_blocking=True)

    def __iter__(self):
        following = self.load(0)
        for i in range(self.count):
            if cuda:
                torch.cuda.current_stream().wait_stream(self.stream)
                following.record_stream(torch.cuda.current_stream())
            batch = following
            if i + 1 < self.count:
                following = self.load(i + 1)
            yield batch


def main():
    torch.manual_seed(0)
    batch, side, width = (256, 128, 4096) if cuda else (2, 16, 16)
    net = nn.Sequential(
        nn.Conv2d(3, width, 16, 16), nn.Flatten(2), nn.AdaptiveAvgPool1d(16), nn.GELU(),
    ).to(device, torch.bfloat16)
    body = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 10))
    body = body.to(device, torch.bfloat16)
    opt = torch.optim.SGD([*net.parameters(), *body.parameters()], lr=1e-3)
    batches = [torch.rand(batch, 3, side, side).to(torch.bfloat16) for _ in range(3)]
    if cuda:
        batches = [b.pin_memory() for b in batches]
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(4, steps - 1)
    for step, images in enumerate(Prefetcher(batches, steps)):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = body(net(images).transpose(1, 2)).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
