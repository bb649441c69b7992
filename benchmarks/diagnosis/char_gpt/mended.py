import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
batch_size, block_size, n_layer, n_head, n_embd = (16, 512, 6, 12, 768) if cuda else (2, 16, 2, 2, 32)
max_iters = int(os.environ.get("STEPS", 18))
ctx = torch.autocast(device, dtype=torch.bfloat16)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.fc = nn.Linear(n_embd, 4 * n_embd)
        self.back = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.back(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocab=96):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Block() for _ in range(n_layer))
        self.lm_head = nn.Linear(n_embd, vocab)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe.weight
        for b in self.h:
            x = b(x)
        logits = self.lm_head(x)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


torch.manual_seed(1337)
text = torch.randint(0, 96, (200_000,), device=device)
model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=cuda)
warm = min(4, max_iters - 1)
for it in range(max_iters):
    if it == warm:
        torch.cuda.synchronize() if cuda else None
        t0 = time.perf_counter()
    ix = torch.arange(batch_size, device=device) * 300 + it * 7
    ix = ix[:, None] + torch.arange(block_size, device=device)
    with ctx:
        loss = model(text[ix], text[ix + 1])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
torch.cuda.synchronize() if cuda else None
dt = time.perf_counter() - t0
print(json.dumps({"seconds_per_iteration": dt / (max_iters - warm), "loss": loss.item()}))
