import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
batch, length, width = (1024, 64, 1536) if cuda else (2, 4, 8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, 8)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def main():
    torch.manual_seed(0)
    net = Model().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=cuda)
    x = torch.randn(batch, length, width, device=device, dtype=torch.bfloat16)
    steps = int(os.environ.get("STEPS", 16))
    warmup = min(4, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.profiler.record_function("step"):
            loss = net(x).float().square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.4f}")
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
