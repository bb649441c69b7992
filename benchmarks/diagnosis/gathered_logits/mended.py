import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

cuda = torch.cuda.is_available()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
STEPS = int(os.environ.get("STEPS", 18))
WARMUP = min(4, STEPS - 1)


def accuracy(logits, labels):
    right = (logits.argmax(1) == labels).float().mean()
    dist.all_reduce(right)
    return right / world


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, vocab, batch = (512, 60_000, 8192) if cuda else (16, 50, 4)
    body = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, vocab))
    model = DDP(body.to(device, torch.bfloat16 if cuda else None), device_ids=[rank] if cuda else None)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(batch, width, device=device, dtype=next(model.parameters()).dtype)
    labels = torch.randint(0, vocab, (batch,), device=device)
    scores = []
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        scores.append(accuracy(logits.detach(), labels))
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
