"""The feed of `input_pipeline`: files and a plan in, a `torch.utils.data.DataLoader` of its batches out.

Which picture stands where in which batch, and what is done to it at random, is drawn before anything runs, so
that batches are the same whoever loads them. Workers are *spawned*, not forked: a process that has used CUDA
must not be forked (https://docs.pytorch.org/docs/stable/notes/multiprocessing.html), and nsys follows a child
only through ``exec``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labcode.experiments.advanced.input_pipeline.files import Reader, picture_path
from labcode.experiments.advanced.input_pipeline.pictures import (
    CROPPED,
    STORED,
    Augmentation,
    decode,
    transform,
)
from labcode.experiments.shared.common import nvtx_range

if TYPE_CHECKING:
    import torch

STAGES = ("read", "decode", "transform")
Sample = tuple[npt.NDArray[np.float32], int, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Setup:
    """How a variant feeds the GPU.

    ``workers`` processes (0: the training loop itself loads), each ``ahead`` batches ahead; ``pin``: into
    pinned memory, copied while the GPU computes; ``persistent``: workers outlive an epoch; ``slow``: what is
    done the slow way (see `Reader` and ``pictures.py``).
    """

    workers: int = 0
    ahead: int = 2
    pin: bool = False
    persistent: bool = False
    slow: frozenset[str] = frozenset()
    piece: int = 256
    rate_per_s: float = 400.0


@dataclass(frozen=True)
class Plan:
    """What each place of each batch holds: arrays [batches × batch] of file numbers and random choices.

    A worker is sent the seed, not the arrays. What a spawned worker is sent goes through a pipe; when it is
    more than the pipe holds (64 KiB), a worker must have started before the next one is.
    """

    seed: int
    count: int
    batch: int
    batches: int
    files: npt.NDArray[np.int64]
    top: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]
    mirrored: npt.NDArray[np.bool_]
    contrast: npt.NDArray[np.float64]

    def __reduce__(self) -> tuple[Any, ...]:
        return make_plan, (self.seed, self.batch, self.batches, self.count)

    def augmentation(self, place: int) -> Augmentation:
        """What is done to the picture at a place."""
        return Augmentation(
            int(self.top[place]),
            int(self.left[place]),
            bool(self.mirrored[place]),
            float(self.contrast[place]),
        )

    def batch_places(self) -> Iterator[list[int]]:
        """The places of each batch in turn: a batch sampler for the loader."""
        for first in range(0, self.batches * self.batch, self.batch):
            yield list(range(first, first + self.batch))


def make_plan(seed: int, batch: int, batches: int, files: int) -> Plan:
    """Draw a plan: the first batches are the same however many follow."""
    columns = [
        (
            rng.integers(0, files, batch),
            rng.integers(0, STORED - CROPPED + 1, batch),
            rng.integers(0, STORED - CROPPED + 1, batch),
            rng.random(batch) < 0.5,
            rng.uniform(0.8, 1.2, batch),
        )
        for rng in (np.random.default_rng((seed, number)) for number in range(batches))
    ]
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    return Plan(seed, files, batch, batches, *joined)


class Pictures:
    """A map-style data set: a place of the plan in; picture, label and the seconds of each stage out."""

    def __init__(
        self, folder: Path, plan: Plan, reader: Reader, slow: Collection[str], device: torch.device
    ) -> None:
        self.folder, self.plan, self.reader, self.slow, self.device = folder, plan, reader, slow, device

    def __len__(self) -> int:
        return len(self.plan.files)

    def __getitem__(self, place: int) -> Sample:
        begin = time.perf_counter()
        with nvtx_range("read", self.device):
            data = self.reader.read(picture_path(self.folder, int(self.plan.files[place])))
        have_read = time.perf_counter()
        with nvtx_range("decode", self.device):
            pixels, label = decode(data, self.slow)
        decoded = time.perf_counter()
        with nvtx_range("transform", self.device):
            picture = transform(pixels, self.plan.augmentation(place), self.slow)
        done = time.perf_counter()
        return (
            picture,
            label,
            np.array([have_read - begin, decoded - have_read, done - decoded]),
        )


def make_loader(
    torch: Any,
    folder: Path,
    plan: Plan,
    setup: Setup,
    device: torch.device,
    log: Path,
) -> Any:
    """The `DataLoader` of a set-up: batches in the plan's order.

    Each is (pictures, labels, seconds [batch, 3]).
    """
    reader = Reader(setup.slow, setup.piece, setup.rate_per_s, log)
    pictures = Pictures(folder, plan, reader, setup.slow, device)
    options: dict[str, Any] = {}
    if setup.workers:
        options = {
            "num_workers": setup.workers,
            "prefetch_factor": setup.ahead,
            "persistent_workers": setup.persistent,
            "multiprocessing_context": "spawn",
        }
    return torch.utils.data.DataLoader(
        pictures,
        batch_sampler=list(plan.batch_places()),
        pin_memory=setup.pin and device.type == "cuda",
        **options,
    )
