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
STEPS = int(os.environ.get("STEPS", 20))
WARMUP = min(4, STEPS - 1)


def averaged(metrics):
    values = torch.stack(list(metrics.values())).detach()
    dist.all_reduce(values)
    return dict(zip(metrics, (values / world).tolist()))


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    tasks, width, batch = (40, 2048, 4096) if cuda else (3, 16, 4)
    torch.set_float32_matmul_precision("high")
    trunk = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, tasks)
    )
    model = DDP(trunk.to(device), device_ids=[rank] if cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    x = torch.randn(batch, width, device=device)
    y = torch.randn(batch, tasks, device=device)
    log = []
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        error = (model(x) - y).square().mean(0)
        loss = error.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.append(averaged({f"task{i}": e for i, e in enumerate(error.unbind())}))
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
