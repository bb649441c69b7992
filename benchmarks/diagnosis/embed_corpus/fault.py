import json
import os
import time

import torch
import torch.nn as nn

use_cuda = torch.cuda.is_available()
dev = "cuda" if use_cuda else "cpu"


def encoder(width, layers):
    layer = nn.TransformerEncoderLayer(width, width // 64 or 1, 4 * width, batch_first=True, dropout=0.0, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


@torch.no_grad()
def embed(model, table, batches):
    kept = []
    begin = 0
    warm = min(5, len(batches) - 1)
    for i, tokens in enumerate(batches):
        if i == warm:
            if use_cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        hidden = model(table(tokens))
        kept.append(hidden.cpu())
    if use_cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / (len(batches) - warm)
    return torch.cat([hidden.mean(1) for hidden in kept]), seconds


if __name__ == "__main__":
    torch.manual_seed(11)
    count = int(os.environ.get("STEPS", 20))
    width, layers, size, length = (1024, 2, 64, 256) if use_cuda else (64, 1, 2, 8)
    model = encoder(width, layers).to(dev, torch.bfloat16).eval()
    table = nn.Embedding(30_000, width).to(dev, torch.bfloat16)
    batches = [torch.randint(0, 30_000, (size, length), device=dev) for _ in range(count)]
    found, seconds = embed(model, table, batches)
    print(json.dumps({"seconds_per_iteration": seconds, "norm": found.float().norm().item()}))
