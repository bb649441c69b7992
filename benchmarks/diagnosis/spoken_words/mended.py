import json
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", 20))
WARMUP = min(6, STEPS - 1)
device = "cuda" if torch.cuda.is_available() else "cpu"
BATCH = 96 if device == "cuda" else 4


class Clips(Dataset):
    """One second of sound at 16 kHz, as a log spectrogram."""

    def __init__(self, size):
        self.size = size
        self.noise = np.random.default_rng(1).standard_normal(200_000).astype(np.float32)

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        offset = (i * 977) % 150_000
        wave = self.noise[offset : offset + 16_000]
        frames = np.lib.stride_tricks.sliding_window_view(wave, 400)[::160]
        spectrum = np.abs(np.fft.rfft(frames * np.hanning(400), n=512))
        spectrum = np.log(spectrum[:, :128] + 1e-5).astype(np.float32)
        return spectrum, i % 35


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(128, 512, num_layers=2, batch_first=True)
        self.head = nn.Linear(512, 35)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def train():
    torch.manual_seed(1)
    net = Listener().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(
        Clips(BATCH * STEPS),
        batch_size=BATCH,
        num_workers=12,
        pin_memory=device == "cuda",
    )
    began = 0.0
    for step, (x, y) in enumerate(loader):
        if step == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if device == "cuda":
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    print(json.dumps({"seconds_per_iteration": took / (STEPS - WARMUP), "loss": float(loss)}))


if __name__ == "__main__":
    train()
