"""Fraud detection with a running AUC."""
import json
import os
import time

import numpy as np
import torch
from torch import nn

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")


class AUC:
    def __init__(self):
        self.values = []

    def update(self, scores, labels):
        scores = scores.detach().float().cpu().numpy()
        labels = labels.cpu().numpy()
        order = np.argsort(scores, kind="stable")
        ranks = np.empty(len(order))
        ranks[order] = np.arange(1, len(order) + 1)
        positive = labels == 1
        n, m = positive.sum(), (~positive).sum()
        self.values.append((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))

    def compute(self):
        return float(np.mean(self.values))


def main():
    torch.manual_seed(4)
    rows, width = (131_072, 512) if cuda else (64, 16)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(rows, 64, device=device)
    y = (x[:, 0] + torch.randn(rows, device=device) > 1).float()
    meter = AUC()
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(scores, y)
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "auc": meter.compute()}))


if __name__ == "__main__":
    main()
