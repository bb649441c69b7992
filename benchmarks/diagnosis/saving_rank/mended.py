import json
import os
import tempfile
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


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    width, depth, batch = (2048, 6, 8192) if cuda else (16, 2, 4)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))).to(
        device
    )
    model = DDP(model, device_ids=[rank] if cuda else None)
    opt = torch.optim.Adam(model.parameters(), lr=1e-4, fused=cuda)
    x = torch.randn(batch, width, device=device)
    folder = tempfile.TemporaryDirectory()
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 1:
            if rank == 0:
                torch.save(
                    [model.module.state_dict(), opt.state_dict()], os.path.join(folder.name, "last.pt")
                )
            dist.barrier()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (STEPS - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))
    folder.cleanup()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
