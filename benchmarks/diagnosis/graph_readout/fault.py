"""Message passing on a batch of graphs of equal size, with a sum over the nodes of each."""
import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
GRAPHS, NODES, DIM = (16, 65_536, 64) if cuda else (2, 16, 4)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.node = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        self.out = nn.Linear(DIM, 1)

    def readout(self, h, member):
        total = torch.zeros(GRAPHS, DIM, device=h.device)
        total.index_add_(0, member, h)
        return total / NODES

    def forward(self, h, src, member):
        h = h + self.node(h[src])
        return self.out(self.readout(h, member))


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    net = GraphNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    h = torch.randn(GRAPHS * NODES, DIM, device=device)
    member = torch.arange(GRAPHS, device=device).repeat_interleave(NODES)
    src = torch.randperm(GRAPHS * NODES, device=device)
    target = torch.randn(GRAPHS, 1, device=device)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = nn.functional.mse_loss(net(h, src, member), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
