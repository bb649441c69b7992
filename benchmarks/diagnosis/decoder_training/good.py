import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
B, T, H, C, DEPTH, VOCAB = (8, 1024, 16, 2048, 4, 32000) if cuda else (2, 8, 2, 16, 1, 50)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, C)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(C, VOCAB, bias=False)

    def forward(self, x, y):
        h = self.words(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def main():
    torch.manual_seed(0)
    model = Decoder().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    tokens = torch.randint(0, VOCAB, (B, T + 1), device=device)
    steps = int(os.environ.get("STEPS", 16))
    warmup = min(4, steps - 1)
    losses = []
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": losses[-1].item()}))


if __name__ == "__main__":
    main()
