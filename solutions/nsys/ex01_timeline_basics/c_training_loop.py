"""Exercise nsys-ex01, part c: make this training loop keep the GPU busy. Needs a GPU and PyTorch.

`train` below is right and slow: the CPU prepares each batch while the GPU has nothing to do, and waits for
the GPU again and again. Change it, so that it gives the same losses and the same trained model in less time.

    model, optimizer    on `device`, ready to train
    batches             a list of (pixels, labels), on the CPU: pixels is a uint8 tensor [batch, features],
                        labels an int64 tensor [batch]
    mean, scale         the network wants (pixels - mean) / scale, as float32
    device              where the model is

It returns the loss of each step, before that step's update, as a list of Python numbers.

A worked example: with two batches, a model whose loss is 2.3 on the first and, after one step, 2.1 on the
second:

    train(model, optimizer, batches, mean, scale, device)  ->  [2.3, 2.1]

It is graded in this order: the same losses on small networks you have not seen; then, on a larger one and
beside the loop as it is here, at most two thirds of its time and half of its share of GPU idle time.

Grade it:         labcode exercises nsys-ex01c        (or: nox -s exercises -- nsys-ex01c)
Get a hint:       labcode exercises nsys-ex01c --hint
Try it yourself:  nsys profile --trace=cuda python exercises/nsys/ex01_timeline_basics/c_training_loop.py
"""

import torch


def train(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    mean: float,
    scale: float,
    device: torch.device,
) -> list[float]:
    """Train for one step per batch; the loss of each step."""
    # [solution]
    losses = []
    for pixels, labels in batches:
        inputs = (pixels.to(device, non_blocking=True).float() - mean) / scale
        targets = labels.to(device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()
    # [starter]
    # losses = []
    # for pixels, labels in batches:
    #     inputs = ((pixels.float() - mean) / scale).to(device)
    #     targets = labels.to(device)
    #     wait(device)
    #     loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    #     wait(device)
    #     optimizer.zero_grad()
    #     loss.backward()
    #     wait(device)
    #     optimizer.step()
    #     wait(device)
    #     losses.append(loss.item())
    # return losses
    # [end]


def wait(device: torch.device) -> None:
    """Let the CPU wait until the GPU has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    gpu = torch.device("cuda")
    layers = [torch.nn.Linear(3072, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)]
    network = torch.nn.Sequential(*layers).to(gpu)
    data = [
        (torch.randint(0, 256, (2048, 3072), dtype=torch.uint8), torch.randint(0, 10, (2048,)))
        for _ in range(20)
    ]
    print(train(network, torch.optim.SGD(network.parameters(), lr=0.05), data, 127.5, 73.9, gpu))
