"""Self-supervised video features: 8 buffers of pinned clips, a 3D stem and an MLP."""

import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
shape = (48, 3, 16, 192, 192) if cuda else (2, 3, 4, 16, 16)


class Features(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Conv3d(3, dim, (4, 16, 16), (4, 16, 16))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(4)
        )

    def forward(self, clip):
        x = self.stem(clip.to(self.stem.weight.dtype) / 255).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = x + block(x)
        return x.mean(1)


def feed(clips, count):
    """The next clip, on the GPU."""
    if not cuda:
        yield from (clips[i % len(clips)] for i in range(count))
        return
    side, ready = torch.cuda.Stream(), None
    for i in range(count + 1):
        coming = None
        if i < count:
            with torch.cuda.stream(side):
                coming = clips[i % len(clips)].to(device, non_blocking=True)
            event = side.record_event()
        if ready is not None:
            torch.cuda.current_stream().wait_event(ready[1])
            ready[0].record_stream(torch.cuda.current_stream())
            yield ready[0]
        ready = (coming, event)


def main():
    torch.manual_seed(0)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(4, steps - 1)
    model = Features(1024 if cuda else 16).to(device, torch.bfloat16)
    clips = [torch.randint(0, 255, shape, dtype=torch.uint8).float() for _ in range(3)]
    if cuda:
        clips = [clip.pin_memory() for clip in clips]
    total = 0
    with torch.no_grad():
        for step, clip in enumerate(feed(clips, steps)):
            if step == warmup:
                if cuda:
                    torch.cuda.synchronize()
                start = time.perf_counter()
            total = total + model(clip).float().mean()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - warmup)
    print(json.dumps({"seconds_per_iteration": seconds, "total": float(total)}))


if __name__ == "__main__":
    main()
