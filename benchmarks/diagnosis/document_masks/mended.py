import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
B, L, H, C = (16, 1024, 8, 512) if cuda else (2, 16, 2, 16)


def document_mask(documents):
    """True where a token may look: backwards, and within its own document."""
    documents = documents.to(device)
    same = documents[:, :, None] == documents[:, None, :]
    causal = torch.ones(L, L, dtype=torch.bool, device=device).tril()
    allowed = same & causal
    bias = torch.zeros(allowed.shape, device=device).masked_fill(~allowed, float("-inf"))
    return bias.unsqueeze(1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)
        self.mlp = nn.Sequential(nn.LayerNorm(C), nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, x, mask):
        q, k, v = self.qkv(x).view(B, L, 3, H, C // H).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
        x = x + self.out(y.transpose(1, 2).reshape(B, L, C))
        return x + self.mlp(x)


def main():
    torch.manual_seed(0)
    layers = nn.ModuleList(Layer() for _ in range(4)).to(device)
    opt = torch.optim.AdamW(layers.parameters(), lr=1e-4)
    x = torch.randn(B, L, C, device=device)
    steps = int(os.environ.get("STEPS", 18))
    warmup = min(4, steps - 1)
    ends = torch.rand(steps, B, L) < 0.01
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        mask = document_mask(ends[step].cumsum(1))
        with torch.autocast(device.type, torch.bfloat16):
            y = x
            for layer in layers:
                y = layer(y, mask)
        loss = y.float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(json.dumps({"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}))


if __name__ == "__main__":
    main()
