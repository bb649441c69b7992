import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
BATCH = 12 if CUDA else 4
MICRO = BATCH
LENGTH, WIDTH, LAYERS = (128, 512, 6) if CUDA else (8, 16, 1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(8000, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, LAYERS)
        self.tags = nn.Linear(WIDTH, 20)

    def forward(self, x):
        return self.tags(self.body(self.words(x)))


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Tagger().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-5)
    x = torch.randint(0, 8000, (BATCH, LENGTH), device=DEVICE)
    y = torch.randint(0, 20, (BATCH, LENGTH), device=DEVICE)
    steps = int(os.environ.get("STEPS", 15))
    warmup = min(3, steps - 1)
    for step in range(steps):
        if step == warmup:
            if CUDA:
                torch.cuda.synchronize()
            start = time.perf_counter()
        for first in range(0, BATCH, MICRO):
            part = slice(first, first + MICRO)
            loss = F.cross_entropy(model(x[part]).flatten(0, 1), y[part].flatten()) * MICRO / BATCH
            loss.backward()
        opt.step()
        opt.zero_grad()
    if CUDA:
        torch.cuda.synchronize()
    print(
        json.dumps(
            {"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}
        )
    )


if __name__ == "__main__":
    main()
