"""Train a translation-sized feed-forward stack, saving often."""
import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
from torch import nn


def build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def save(folder, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, folder / "last.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 20)))
    parser.add_argument("--save-every", type=int, default=1000)
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    torch.manual_seed(0)
    width, depth, batch = (2048, 6, 8192) if cuda else (32, 2, 4)
    model = build(width, depth).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=cuda)
    x = torch.randn(batch, width, device=device)
    warmup = min(4, args.steps - 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step in range(args.steps):
            if step == warmup:
                if cuda:
                    torch.cuda.synchronize()
                start = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16):
                loss = model(x).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % args.save_every == 0:
                save(folder, model, optimizer, step)
        if cuda:
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) / (args.steps - warmup)
    print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))


if __name__ == "__main__":
    main()
