"""Batches of noisy pictures to train on: a seed and a step in, NumPy arrays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CLASSES, CHANNELS, STORED, CROPPED = 10, 3, 40, 32  # pictures are stored 40 × 40 and cropped to 32 × 32
FEATURES = CHANNELS * CROPPED * CROPPED
PICTURES = 4096


@dataclass(frozen=True)
class BatchPlan:
    """What a batch is made of: how many pictures, how many are mixed into each, the seed."""

    batch: int
    cpu_work: int
    seed: int


@dataclass(frozen=True)
class Pictures:
    """The data set: ``pixels`` uint8 [picture, channel, 40, 40], ``labels`` int64 [picture]; the scale."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    mean: float
    scale: float


def make_pictures(seed: int, count: int = PICTURES) -> Pictures:
    """Pictures of ten kinds: a smooth pattern a class, under noise, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(CLASSES, CHANNELS, 5, 5))
    patterns = np.kron(coarse, np.ones((STORED // 5, STORED // 5)))
    labels = rng.integers(0, CLASSES, count)
    noise = rng.normal(size=(count, CHANNELS, STORED, STORED)).astype(np.float32)
    pixels = np.clip(128 + 24 * patterns[labels] + 40 * noise, 0, 255).astype(np.uint8)
    return Pictures(pixels, labels, float(pixels.mean()), 1.0 / float(pixels.std()))


def prepare(
    pictures: Pictures,
    plan: BatchPlan,
    step: int,
    inputs: npt.NDArray[np.float32],
    targets: npt.NDArray[np.float32],
) -> None:
    """Make the batch of a step: fills ``inputs`` [batch, 3, 32, 32] and ``targets`` [batch, classes].

    A batch depends on the seed and the step alone, whoever prepares it. Each picture of it is a random crop,
    flipped or not, of random contrast; with ``cpu_work`` above 1, a mixture of so many («mix-up»), its label
    likewise.
    """
    rng = np.random.default_rng((plan.seed, step))
    windows = np.lib.stride_tricks.sliding_window_view(pictures.pixels, (CROPPED, CROPPED), axis=(2, 3))
    places = STORED - CROPPED + 1
    count = len(inputs)
    rows = np.arange(count)
    shares = rng.dirichlet(np.full(plan.cpu_work, 0.5), count).astype(np.float32)
    shares.sort(axis=1)  # the last picture is the strongest
    contrast = rng.uniform(0.8, 1.2, (count, 1, 1, 1)).astype(np.float32)
    inputs.fill(0)
    targets.fill(0)
    for k in range(plan.cpu_work):
        chosen = rng.integers(0, len(pictures.labels), count)
        top, left = rng.integers(0, places, count), rng.integers(0, places, count)
        crops = windows[chosen, :, top, left].astype(np.float32)
        flip = rng.random(count) < 0.5
        crops[flip] = crops[flip, :, :, ::-1]
        crops -= np.float32(pictures.mean)
        crops *= contrast * (shares[:, k, None, None, None] * np.float32(pictures.scale))
        inputs += crops
        targets[rows, pictures.labels[chosen]] += shares[:, k]
