import json
import os
import time

import numpy as np
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


def block(c):
    return nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())


def note(history, model, step):
    """Quantiles of the weights, for a plot."""
    row = {}
    for name, p in model.named_parameters():
        row[name] = np.quantile(p.detach().cpu().numpy(), [0.05, 0.5, 0.95])
    history.append((step, row))


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    c, batch, side = (256, 32, 32) if cuda else (8, 2, 8)
    net = nn.Sequential(
        nn.Conv2d(3, c, 3, padding=1),
        *(block(c) for _ in range(6)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(c, 10),
    )
    net = DDP(net.to(device), device_ids=[rank] if cuda else None)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(batch, 3, side, side, device=device)
    y = torch.arange(batch, device=device) % 10
    history = []
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step == STEPS - 1:
            note(history, net.module, step)
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
