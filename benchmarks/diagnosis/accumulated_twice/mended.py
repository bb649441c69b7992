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
STEPS = int(os.environ.get("STEPS", 16))
WARMUP = min(4, STEPS - 1)

MICRO = 8


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, depth, batch = (8192, 6, 256) if cuda else (16, 2, 4)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)))
    model = DDP(model.to(device, torch.bfloat16 if cuda else None), device_ids=[rank] if cuda else None)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(MICRO, batch, width, device=device, dtype=next(model.parameters()).dtype)
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        opt.zero_grad()
        for micro in range(MICRO):
            model.require_backward_grad_sync = micro == MICRO - 1
            loss = model(x[micro]).float().square().mean() / MICRO
            loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
