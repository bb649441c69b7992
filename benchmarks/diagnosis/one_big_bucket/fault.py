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


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, depth, batch = (6144, 12, 1024) if cuda else (16, 2, 4)
    torch.set_float32_matmul_precision("high")
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = DDP(
        nn.Sequential(*layers).to(device),
        device_ids=[rank] if cuda else None,
        bucket_cap_mb=10_000,
        gradient_as_bucket_view=True,
    )
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, fused=cuda)
    x = torch.randn(batch, width, device=device)
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        loss = model(x).square().mean()
        opt.zero_grad(set_to_none=False)
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
