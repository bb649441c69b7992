"""Fine-tune the output layer of a language model with label smoothing."""

import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
rows, vocab, hidden = (4096, 50_304, 768) if cuda else (8, 100, 16)
smoothing = 0.1


def smoothed_loss(logits, targets):
    return nn.functional.cross_entropy(logits, targets, label_smoothing=smoothing)


def main():
    torch.manual_seed(5)
    head = nn.Linear(hidden, vocab, bias=False).to(device, torch.bfloat16)
    opt = torch.optim.SGD(head.parameters(), lr=0.05)
    states = torch.randn(rows, hidden, device=device, dtype=torch.bfloat16)
    targets = torch.randint(0, vocab, (rows,), device=device)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = smoothed_loss(head(states), targets)
        loss.backward()
        opt.step()
        opt.zero_grad()
    if cuda:
        torch.cuda.synchronize()
    took = (time.perf_counter() - start) / (steps - warmup)
    print(json.dumps({"seconds_per_iteration": took, "loss": loss.item()}))


main()
