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


class Memory(nn.Module):
    """Looks up neighbors in a fixed codebook."""

    def __init__(self, rows, dim):
        super().__init__()
        self.register_buffer("codes", torch.randn(rows, dim))
        self.query = nn.Linear(dim, dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, rows):
        near = self.codes[rows]
        return self.out(torch.cat([self.query(x), near], 1))


def main():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    torch.manual_seed(0)
    rows, dim, batch = (500_000, 1024, 8192) if cuda else (50, 8, 4)
    torch.set_float32_matmul_precision("high")
    model = DDP(Memory(rows, dim).to(device), device_ids=[rank] if cuda else None, broadcast_buffers=False)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(batch, dim, device=device)
    near = torch.randint(0, rows, (batch,), device=device)
    for step in range(STEPS):
        if step == WARMUP:
            if cuda:
                torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
        loss = model(x, near).square().mean()
        opt.zero_grad()
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
