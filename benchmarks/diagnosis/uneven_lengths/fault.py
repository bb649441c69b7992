"""Data-parallel encoder training on two shards of sentences."""

import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

cuda = torch.cuda.is_available()
steps = int(os.environ.get("STEPS", 18))
warmup = min(4, steps - 1)


SHARDS = (12, 52) if cuda else (1, 3)  # sentences of a step


def share(rank, world):
    """How many sentences this rank takes."""
    return SHARDS[rank]


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, depth, length = (1024, 6, 256) if cuda else (16, 1, 4)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, depth), nn.Linear(width, 4)).to(device)
    model = DistributedDataParallel(model, device_ids=[rank] if cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=cuda)
    x = torch.randn(share(rank, world), length, width, device=device)
    for step in range(steps):
        if step == warmup:
            dist.barrier()
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - warmup)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
