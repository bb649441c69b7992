import json
import os
import time

import torch
from torch import nn
import torch.nn.functional as F

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
CLIPS, SAMPLES = (4, 1 << 22) if cuda else (2, 1 << 12)


def standardize(wave):
    return F.layer_norm(wave, wave.shape[-1:])


class Frontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 64, 400, 160)
        self.more = nn.Sequential(nn.GELU(), nn.Conv1d(64, 64, 3, 2), nn.GELU(), nn.Conv1d(64, 64, 3, 2))

    def forward(self, wave):
        return self.more(self.conv(standardize(wave).unsqueeze(1))).mean(2)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    net = Frontend().to(device)
    waves = [torch.randn(CLIPS, SAMPLES, device=device) * 3 + 1 for _ in range(3)]
    steps = int(os.environ.get("STEPS", 25))
    warmup = min(5, steps - 1)
    out = []
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        for wave in waves:
            out.append(net(wave))
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - warmup)
    print(json.dumps({"seconds_per_iteration": seconds, "mean": torch.stack(out).mean().item()}))


main()
