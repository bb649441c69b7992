import json
import os
import time

import torch

cuda = torch.cuda.is_available()
if cuda:
    import triton
    import triton.language as tl

    @triton.jit
    def soft_threshold(x, out, n, temperature, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n)
        tl.store(out + at, v * tl.sigmoid(tl.abs(v) / temperature - 1.0), mask=at < n)


def shrink(x, temperature):
    if not cuda:
        return x * torch.sigmoid(x.abs() / temperature - 1.0)
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    soft_threshold[grid](x, out, x.numel(), temperature, BLOCK=1024)
    return out


def main():
    """Sparse coding by annealed iterations."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if cuda else "cpu"
    signals, atoms, samples = (2048, 4096, 4096) if cuda else (8, 16, 8)
    D = torch.nn.functional.normalize(torch.randn(signals, atoms, device=device), dim=0)
    Y = torch.randn(signals, samples, device=device)
    X = torch.zeros(atoms, samples, device=device)
    steps = int(os.environ.get("STEPS", 24))
    warmup = min(4, steps - 1)
    temperature = 1.0
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        for _ in range(3):
            X = shrink(X + 0.1 * (D.T @ (Y - D @ X)), temperature)
        temperature *= 0.93
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - warmup)
    print(json.dumps({"seconds_per_iteration": seconds, "norm": X.norm().item()}))


main()
