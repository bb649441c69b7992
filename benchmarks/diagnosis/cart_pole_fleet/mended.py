"""Policy gradients on a fleet of simulated carts."""

import json
import os
import time

import torch
from torch import nn

cuda = torch.cuda.is_available()
device = "cuda" if cuda else "cpu"
FLEET, HORIZON = (4096, 64) if cuda else (8, 4)


class Fleet:
    """Carts that are pushed left or right."""

    def __init__(self):
        self.state = torch.zeros(FLEET, 4, device=device)

    def push(self, action):
        force = action.to(self.state.dtype) * 2 - 1
        x, v, a, w = self.state.unbind(1)
        w = w + 0.02 * (9.8 * torch.sin(a) - force * torch.cos(a))
        v = v + 0.02 * force
        self.state = torch.stack([x + 0.02 * v, v, a + 0.02 * w, w], 1)
        return 1.0 - a.abs().clamp(max=1)


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
        fleet = Fleet()
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for move in range(HORIZON):
                state = fleet.state
                action = torch.distributions.Categorical(logits=policy(state), validate_args=False).sample()
                reward = fleet.push(action)
                states.append(state)
                actions.append(action)
                rewards.append(reward)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0).flatten()
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
