"""Policy gradients on a fleet of simulated carts."""

import json
import math
import os
import time

import numpy as np
import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
FLEET, HORIZON = (512, 32) if cuda else (8, 4)


class Cart:
    def __init__(self):
        self.state = (0.0, 0.0, 0.0, 0.0)

    def push(self, action):
        x, v, a, w = self.state
        force = 2.0 * action - 1.0
        w = w + 0.02 * (9.8 * math.sin(a) - force * math.cos(a))
        v = v + 0.02 * force
        self.state = (x + 0.02 * v, v, a + 0.02 * w, w)
        return 1.0 - min(abs(a), 1.0)


class Fleet:
    def __init__(self, count):
        self.carts = [Cart() for _ in range(count)]

    def states(self):
        return np.array([cart.state for cart in self.carts], dtype=np.float32)

    def push(self, actions):
        return np.array([cart.push(action) for cart, action in zip(self.carts, actions)], dtype=np.float32)


def main():
    torch.manual_seed(0)
    policy = nn.Sequential(
        nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 2)
    ).to(device)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3, fused=cuda)
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        fleet = Fleet(FLEET)
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for move in range(HORIZON):
                state = torch.from_numpy(fleet.states()).to(device)
                action = torch.distributions.Categorical(logits=policy(state), validate_args=False).sample()
                rewards.append(torch.from_numpy(fleet.push(action.cpu().numpy())))
                states.append(state)
                actions.append(action)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0).flatten().to(device)
        log = nn.functional.log_softmax(policy(torch.cat(states)), 1)
        chosen = log.gather(1, torch.cat(actions)[:, None]).squeeze(1)
        loss = -(chosen * (returns - returns.mean())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    print(
        json.dumps(
            {"seconds_per_iteration": (time.perf_counter() - start) / (steps - warmup), "loss": loss.item()}
        )
    )


if __name__ == "__main__":
    main()
