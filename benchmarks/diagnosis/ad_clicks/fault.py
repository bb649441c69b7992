"""Click prediction: categorical features, a table each, then an MLP."""
import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
FEATURES, ROWS, DIM, BATCH = (200, 2000, 16, 2048) if cuda else (5, 20, 4, 8)


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, DIM, mode="sum") for _ in range(FEATURES))

    def forward(self, ids):
        found = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return torch.cat(found, dim=1)


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = Tables()
        self.mlp = nn.Sequential(nn.Linear(FEATURES * DIM, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, ids):
        return self.mlp(self.tables(ids)).squeeze(1)


def main():
    torch.manual_seed(9)
    torch.set_float32_matmul_precision("high")
    model = Clicks().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [
        (torch.randint(0, ROWS, (BATCH, FEATURES, 2), device=device), torch.rand(BATCH, device=device).round())
        for _ in range(4)
    ]
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        ids, clicked = batches[step % 4]
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids), clicked)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
