import json
import os
import time

import numpy as np
import torch
import torch.nn as nn

cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
BATCH, SIDE, CROP = (256, 80, 64) if cuda else (4, 20, 16)
rng = np.random.default_rng(0)


def augment(images):
    out = np.empty((len(images), 3, CROP, CROP), dtype=np.float32)
    for i, image in enumerate(images):
        top, left = rng.integers(0, SIDE - CROP, 2)
        piece = image[:, top : top + CROP, left : left + CROP]
        if rng.random() < 0.5:
            piece = piece[:, :, ::-1]
        out[i] = piece * rng.uniform(0.8, 1.2) + rng.normal(0, 0.05, piece.shape)
    return torch.from_numpy(out).to(dev)


class Small(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(8)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def main():
    torch.manual_seed(0)
    images = rng.random((BATCH, 3, SIDE, SIDE), dtype=np.float32)
    labels = torch.arange(BATCH, device=dev) % 10
    model = Small().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    steps = int(os.environ.get("STEPS", 20))
    warm = min(5, steps - 1)
    for step in range(steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        x = augment(images)
        loss = nn.functional.cross_entropy(model(x), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - t0) / (steps - warm), "loss": loss.item()}))


if __name__ == "__main__":
    main()
