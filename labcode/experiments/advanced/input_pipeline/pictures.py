"""The CPU's work on one picture of `input_pipeline`: bytes of a file in, float32 [3, 64, 64] and a label out.

A file holds a header and the zlib-compressed pixels, each row stored as its difference from the row above
(PNG's filter «Up», https://www.w3.org/TR/png-3/#9Filters), because differences compress better. Three stages
exist in a slow and in a fast way that give the same bits: undoing the filter, gamma, equalizing.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from labcode.errors import InputError

CLASSES, CHANNELS, STORED, CROPPED = 10, 3, 72, 64  # pictures are stored 72 × 72 and cropped to 64 × 64
GAMMA = 1 / 2.2
MEAN, SCALE = np.float32(127.5), np.float32(1 / 73.9)  # of equalized pixels: evenly spread over 0 … 255
_HEADER = struct.Struct("<4sHHHH")  # magic, channels, height, width, label
_MAGIC = b"LABP"

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Augmentation:
    """What is done to a picture at random: where it is cropped, whether it is mirrored, its contrast."""

    top: int
    left: int
    mirrored: bool
    contrast: float


def make_pixels(label: int, rng: np.random.Generator, patterns: npt.NDArray[np.float64]) -> Pixels:
    """A picture [3, 72, 72] of a class: its pattern of ``patterns`` [class, 3, 72, 72] under noise."""
    noise = rng.normal(size=(CHANNELS, STORED, STORED))
    bright = 110 + 24 * patterns[label] + 16 * noise
    return np.asarray(np.clip(bright, 0, 255), np.uint8)


def make_patterns(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """One coarse pattern a class, [10, 3, 72, 72], so that there is something to learn."""
    coarse = rng.normal(size=(CLASSES, CHANNELS, 6, 6))
    return np.kron(coarse, np.ones((STORED // 6, STORED // 6))).astype(np.float64)


def encode(pixels: Pixels, label: int) -> bytes:
    """The file of a picture."""
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    channels, height, width = pixels.shape
    return _HEADER.pack(_MAGIC, channels, height, width, label) + zlib.compress(differences.tobytes(), 1)


def decode(data: bytes, slow: Collection[str] = ()) -> tuple[Pixels, int]:
    """Pixels [3, 72, 72] and label of a file's content; `InputError` when it is not such a file."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise InputError("not a picture of input_pipeline; the files are made when it starts, leave them be")
    _, channels, height, width, label = _HEADER.unpack_from(data)
    try:
        filtered = zlib.decompress(data[_HEADER.size :])
    except zlib.error as error:
        raise InputError(f"a picture is damaged ({error}); run the program again") from None
    if len(filtered) != channels * height * width:
        raise InputError(f"a picture has {len(filtered)} bytes of pixels, not {channels * height * width}")
    undo = undo_filter_bytewise if "decode" in slow else undo_filter_cumsum
    return undo(filtered, (channels, height, width)), label


def undo_filter_bytewise(filtered: bytes, shape: tuple[int, int, int]) -> Pixels:
    """Add to each byte the one above it, in a Python loop."""
    channels, height, width = shape
    pixels = bytearray(filtered)
    for channel in range(channels):
        first = channel * height * width
        for place in range(first + width, first + height * width):
            pixels[place] = (pixels[place] + pixels[place - width]) & 255
    return np.frombuffer(pixels, np.uint8).reshape(shape)


def undo_filter_cumsum(filtered: bytes, shape: tuple[int, int, int]) -> Pixels:
    """Add to each byte the one above it: a running sum over the rows, modulo 256."""
    return np.cumsum(
        np.frombuffer(filtered, np.uint8).reshape(shape),
        axis=1,
        dtype=np.uint8,
    )


def _brighten(level: int) -> int:
    return round(255 * math.pow(level / 255, GAMMA))


def correct_gamma_vectorize(pixels: Pixels) -> Pixels:
    """Brighten each pixel by a Python function.

    `numpy.vectorize` is a loop in spite of its name.
    """
    brighten = np.vectorize(_brighten, otypes=[np.uint8])
    return np.asarray(brighten(pixels), np.uint8)


@cache
def _gamma_table() -> Pixels:
    return np.array([_brighten(level) for level in range(256)], np.uint8)


def correct_gamma_table(pixels: Pixels) -> Pixels:
    """Brighten by looking each pixel up: there are only 256 different ones."""
    return _gamma_table()[pixels]


def equalize_counting(pixels: Pixels) -> Pixels:
    """Spread the levels of each channel evenly; the histogram is counted in a Python loop."""
    result = np.empty_like(pixels)
    for channel, plane in enumerate(pixels):
        counts = [0] * 256
        for level in plane.ravel().tolist():
            counts[level] += 1
        result[channel] = _spread(np.array(counts), plane)
    return result


def equalize_bincount(pixels: Pixels) -> Pixels:
    """Spread the levels of each channel evenly; NumPy counts the histogram."""
    return np.stack([_spread(np.bincount(plane.ravel(), minlength=256), plane) for plane in pixels])


def _spread(counts: npt.NDArray[np.int64], plane: Pixels) -> Pixels:
    """The levels of a plane [rows, columns] by their rank in the histogram [256]."""
    below = np.cumsum(counts) - counts
    return ((below * 255) // max(1, plane.size - 1)).astype(np.uint8)[plane]


def transform(pixels: Pixels, chosen: Augmentation, slow: Collection[str] = ()) -> npt.NDArray[np.float32]:
    """Crop, mirror, gamma, equalize, contrast: float32 [3, 64, 64] about 0."""
    gamma: Callable[[Pixels], Pixels] = correct_gamma_vectorize if "gamma" in slow else correct_gamma_table
    equalize = equalize_counting if "equalize" in slow else equalize_bincount
    cropped = pixels[:, chosen.top : chosen.top + CROPPED, chosen.left : chosen.left + CROPPED]
    if chosen.mirrored:
        cropped = cropped[:, :, ::-1]
    levels = equalize(gamma(cropped)).astype(np.float32)
    levels -= MEAN
    levels *= SCALE * np.float32(chosen.contrast)
    return levels
