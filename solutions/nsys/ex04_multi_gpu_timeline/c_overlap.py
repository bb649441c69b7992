"""Exercise nsys-ex04, part c: reduce gradients while the backward pass goes on. Needs two GPUs and PyTorch.

Two processes, one a GPU, train the same network on different data. After each backward pass the gradients
must be replaced by their mean over the processes. `Reducer` below does that when the pass is over, one
parameter after the other, while nothing else runs. Change it, so that the communication hides behind the
pass.

The grader, in each process, does this; the process group exists already (`torch.distributed` works):

    reducer = Reducer(parameters, ranks)     once; parameters in the model's order, all with requires_grad
    for each step:
        reducer.prepare()                    before the pass; old gradients may be thrown away
        loss.backward()
        reducer.finish()                     afterwards every parameter.grad is the mean over the ranks

A worked example: a parameter whose gradient is 1.0 on rank 0 and 3.0 on rank 1 has 2.0 on both after
finish().

Every process must start its collectives in the same order. The backward pass reaches the last parameters
first.

It is graded in this order: the gradients of several steps, on networks you have not seen; then, on a larger
one, that at least half of the communication time is hidden behind other kernels (as in part a), and that a
step takes no longer than with the reducer as it is here (5 % are granted to noise).

Grade it:         labcode exercises nsys-ex04c        (or: nox -s exercises -- nsys-ex04c)
Get a hint:       labcode exercises nsys-ex04c --hint
"""

import torch
import torch.distributed as dist


class Reducer:
    """Replaces gradients by their mean over all processes."""

    # [solution]
    bucket_bytes = 25_000_000

    # [end]
    def __init__(self, parameters: list[torch.nn.Parameter], ranks: int) -> None:
        self.parameters = parameters
        self.ranks = ranks
        # [solution]
        self.buckets: list[list[torch.nn.Parameter]] = [[]]
        filled = 0
        for parameter in reversed(parameters):
            if filled >= self.bucket_bytes:
                self.buckets.append([])
                filled = 0
            self.buckets[-1].append(parameter)
            filled += parameter.numel() * parameter.element_size()
        self.flats = [
            torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype, device=bucket[0].device)
            for bucket in self.buckets
        ]
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(lambda _, number=number: self.arrived(number))
        # [end]

    def prepare(self) -> None:
        """Before a backward pass."""
        # [solution]
        self.works: list[dist.Work] = []
        self.missing = [len(bucket) for bucket in self.buckets]
        for bucket, flat in zip(self.buckets, self.flats, strict=True):
            flat.zero_()
            start = 0
            for parameter in bucket:
                parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
                start += parameter.numel()
        # [starter]
        # for parameter in self.parameters:
        #     parameter.grad = None
        # [end]

    # [solution]
    def arrived(self, number: int) -> None:
        """A gradient of this bucket is there; reduce all buckets that are complete, in their order."""
        self.missing[number] -= 1
        while len(self.works) < len(self.buckets) and self.missing[len(self.works)] == 0:
            self.works.append(dist.all_reduce(self.flats[len(self.works)], async_op=True))

    # [end]
    def finish(self) -> None:
        """After it: every parameter's gradient is the mean over the ranks."""
        # [solution]
        for work, flat in zip(self.works, self.flats, strict=True):
            work.wait()
            flat /= self.ranks
        # [starter]
        # for parameter in self.parameters:
        #     dist.all_reduce(parameter.grad)
        #     parameter.grad /= self.ranks
        # [end]
