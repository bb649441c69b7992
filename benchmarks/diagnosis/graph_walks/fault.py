import gc
import json
import os
import random
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
NODES = 120_000 if cuda else 1_000


class Node:
    def __init__(self, number):
        self.number = number
        self.near = []


def make_graph():
    rng = random.Random(0)
    nodes = [Node(i) for i in range(NODES)]
    for node in nodes:
        node.near = [(rng.randrange(NODES), 1.0) for _ in range(4)]
    return nodes


def main():
    torch.manual_seed(0)
    graph = make_graph()
    src = torch.tensor([n.number for n in graph for _ in n.near], device=device)
    dst = torch.tensor([other for n in graph for other, _ in n.near], device=device)
    dim = 128 if cuda else 8
    embed = nn.Embedding(NODES, dim).to(device)
    net = nn.Sequential(nn.Linear(2 * dim, 512), nn.ReLU(), nn.Linear(512, 1)).to(device)
    opt = torch.optim.SGD([*embed.parameters(), *net.parameters()], lr=0.1)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16):
            score = net(torch.cat([embed(src), embed(dst.roll(step))], 1)).float()
        loss = nn.functional.softplus(-score).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        del score
        gc.collect()  # keeps memory low
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
