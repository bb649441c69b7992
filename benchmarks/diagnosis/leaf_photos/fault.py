"""Train a small CNN on compressed photos kept in memory."""
import argparse
import json
import os
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")


class Leaves(Dataset):
    def __init__(self, count, side):
        rng = np.random.default_rng(0)
        self.side = side
        self.count = count
        raw = [rng.integers(0, 40, (side, side, 3), dtype=np.uint8) for _ in range(64)]
        self.packed = [zlib.compress(image.tobytes(), 4) for image in raw]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        data = zlib.decompress(self.packed[index % 64])
        image = np.frombuffer(data, dtype=np.uint8).reshape(self.side, self.side, 3)
        image = image.astype(np.float32) / 255.0
        image = (image - image.mean((0, 1))) / (image.std((0, 1)) + 1e-6)
        if index % 2:
            image = image[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), index % 100


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64 if cuda else 4)
    parser.add_argument("--side", type=int, default=224 if cuda else 32)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 20)))
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        block(3, 64), block(64, 128), block(128, 256), block(256, 512),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = Leaves(args.batch * args.steps, args.side)
    loader = DataLoader(data, batch_size=args.batch, num_workers=0, pin_memory=cuda)
    warmup = min(5, args.steps - 1)
    for step, (images, labels) in enumerate(loader):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (args.steps - warmup)
    print(json.dumps({"seconds_per_iteration": seconds, "loss": loss.item()}))


if __name__ == "__main__":
    main()
