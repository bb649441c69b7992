# Implicit heat equation on a dense kernel matrix, conjugate gradients in each time step.
import json
import os
import time

import torch

cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
n = 3072 if cuda else 64
inner = 100 if cuda else 5
steps = int(os.environ.get("STEPS", 20))
warmup = min(4, steps - 1)


def solve(A, b, x, iterations):
    r = b - A @ x
    p = r.clone()
    rr = torch.dot(r, r)
    for _ in range(iterations):
        Ap = A @ p
        alpha = rr / (torch.dot(p, Ap) + 1e-30)
        x = torch.addcmul(x, p, alpha)
        r = torch.addcmul(r, Ap, -alpha)
        new = torch.dot(r, r)
        p = torch.addcmul(r, p, new / (rr + 1e-30))
        rr = new
    return x


def main():
    torch.manual_seed(0)
    points = torch.rand(n, 2, device=dev)
    A = torch.exp(-20 * torch.cdist(points, points) ** 2)
    A = A @ A.T / n + torch.eye(n, device=dev)
    u = torch.rand(n, device=dev)
    x = torch.zeros(n, device=dev)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        x = solve(A, u, x, inner)
        u = 0.9 * x + 0.1 * u
    if cuda:
        torch.cuda.synchronize()
    print(
        json.dumps(
            {"seconds_per_iteration": (time.perf_counter() - t0) / (steps - warmup), "u": u.mean().item()}
        )
    )


main()
