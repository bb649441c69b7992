"""Reinforcement-style value training with a thread that watches statistics."""

import collections
import json
import os
import threading
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"


class Watcher(threading.Thread):
    def __init__(self, seen):
        super().__init__(daemon=True)
        self.seen = seen
        self.done = False
        self.report = {}

    def run(self):
        while not self.done:
            counts = collections.Counter()
            for value in list(self.seen):
                counts[value // 7] += 1
            self.report = {key: counts[key] for key in sorted(counts)}
            time.sleep(0.001)


def main():
    torch.manual_seed(0)
    width, depth, batch = (1024, 8, 2048) if cuda else (16, 2, 4)
    value = nn.Sequential(
        *[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)], nn.Linear(width, 1)
    )
    value = value.to(device)
    opt = torch.optim.Adam(value.parameters(), lr=1e-3, fused=cuda)
    states = torch.randn(batch, width, device=device)
    returns = torch.randn(batch, 1, device=device)
    seen = collections.deque(range(40_000), maxlen=40_000)
    watcher = Watcher(seen)
    watcher.start()
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.smooth_l1_loss(value(states), returns)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - warmup)
    watcher.done = True
    watcher.join()
    print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item(), "bins": len(watcher.report)}))


if __name__ == "__main__":
    main()
