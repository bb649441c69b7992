import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

cuda = torch.cuda.is_available()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
STEPS = int(os.environ.get("STEPS", 18))
WARMUP = min(4, STEPS - 1)

MICRO = 8


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, depth, batch = (4096, 6, 8192) if cuda else (16, 2, 8)
    kind = torch.bfloat16 if cuda else torch.float32
    stage = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))).to(
        device, kind
    )
    opt = torch.optim.SGD(stage.parameters(), lr=1e-4)
    x = torch.randn(batch, width, device=device, dtype=kind)
    loss = torch.zeros((), device=device)
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        opt.zero_grad()
        kept = []
        for part in x.chunk(MICRO):
            if rank == 0:
                out = stage(part)
                dist.send(out.detach(), 1)
                kept.append(out)
            else:
                come = torch.empty_like(part)
                dist.recv(come, 0)
                come.requires_grad_()
                loss = stage(come).float().square().mean() / MICRO
                kept.append((come, loss))
        for item in kept:
            if rank == 0:
                grad = torch.empty_like(item)
                dist.recv(grad, 1)
                item.backward(grad)
            else:
                item[1].backward()
                dist.send(item[0].grad, 0)
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
