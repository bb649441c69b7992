"""What the workloads share: command line, NVTX ranges, GPU checks in; a JSON record and an exit code out."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError, ToolError, describe_os_error

if TYPE_CHECKING:
    import torch

MEASURED = "lab:measured"
"""The NVTX range that captures are trimmed to; it opens after warm-up, with a synchronize before each end."""

EXIT_CHECK_FAILED = 1
EXIT_BAD_USE = 2

_ONE_LINE_ERRORS = ("OutOfMemoryError", "DistBackendError", "DistNetworkError", "DistStoreError")  # PyTorch's


@dataclass(frozen=True)
class Check:
    """One check of a workload's own result: did it hold, and by how much."""

    passed: bool
    detail: str


@dataclass(frozen=True)
class Record:
    """What a workload says about its own run. Names of results end in their unit."""

    program: str
    variant: str
    parameters: Mapping[str, Any]
    results: Mapping[str, Any]
    checks: Mapping[str, Check]
    gpu: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return all(check.passed for check in self.checks.values())


def finish(record: Record, path: Path | None) -> int:
    """Write the record (nowhere without a path), name failed checks on stderr, return the exit code."""
    if path is not None:
        write_json(path, asdict(record))
    for name, check in record.checks.items():
        if not check.passed:
            print(f"{record.program}: check {name} failed: {check.detail}", file=sys.stderr)
    return 0 if record.passed else EXIT_CHECK_FAILED


def write_json(path: Path, content: object) -> None:
    """Write JSON whole or not at all, NaN and infinities as null; `LabError` when that fails."""
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_text(json.dumps(_finite(content), allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise LabError(describe_os_error(error)) from None


def _finite(content: Any) -> Any:
    """The same content with null for what JSON does not know."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def parser(program: str, description: str, variants: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with what every workload takes: ``--variant``, ``--json``, ``--list``."""
    result = argparse.ArgumentParser(prog=program, description=description)
    result.add_argument(
        "--variant", choices=list(variants), default=variants[0], help=f"default {variants[0]}"
    )
    result.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    result.add_argument(
        "--list", action=_List, variants=variants, help="print the variants, one a line, and stop"
    )
    return result


class _List(argparse.Action):
    """``--list``: prints the variants and stops, like ``--help``."""

    def __init__(self, variants: Sequence[str], **options: Any) -> None:
        super().__init__(nargs=0, **options)
        self.variants = variants

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print("\n".join(self.variants))
        parser.exit()


def whole(least: int, most: int = 2**62) -> Callable[[str], int]:
    """An argparse type: a whole number within bounds."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is not between {least} and {most}")
        return value

    return convert


def positive(text: str) -> float:
    """An argparse type: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def run(program: str, main: Callable[[Sequence[str]], int]) -> None:
    """Call a workload's ``main`` with the command line and exit with its code.

    A `LabError`, a GPU without enough memory, and a group of processes that fell apart become one line on
    stderr and exit code 2.
    """
    try:
        code = main(sys.argv[1:])
    except LabError as error:
        print(f"{program}: {error}", file=sys.stderr)
        code = EXIT_BAD_USE
    except RuntimeError as error:
        if type(error).__name__ not in _ONE_LINE_ERRORS:
            raise
        print(f"{program}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        code = EXIT_BAD_USE
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


def import_torch() -> Any:
    """PyTorch, or a `ToolError` that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ToolError(
            f"this workload needs PyTorch, which cannot be imported here ({error}); install the package torch"
        ) from None
    return torch


def require_gpus(torch: Any, count: int = 1) -> int:
    """The number of GPUs torch sees; a `ToolError` when there are fewer than ``count``."""
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen == 0:
        why = (
            "this PyTorch is a CPU build"
            if torch.version.cuda is None
            else "see nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
        raise ToolError(f"no NVIDIA GPU that PyTorch can use: {why}")
    if seen < count:
        raise ToolError(
            f"this workload needs {count} GPUs and PyTorch sees {seen}; run it on a larger machine"
        )
    return int(seen)


def require_memory(torch: Any, needed_bytes: int, advice: str) -> None:
    """A `ToolError` when the current GPU has less memory free than a run needs."""
    free, _ = torch.cuda.mem_get_info()
    if free < needed_bytes:
        raise ToolError(
            f"the GPU has {free >> 20} MiB free and this run needs about {needed_bytes >> 20} MiB; {advice}"
        )


def gpu_info(torch: Any, device: torch.device) -> dict[str, Any]:
    """The GPU as a record has it; ``{"name": "cpu"}`` where a workload runs without one."""
    if device.type != "cuda":
        return {"name": "cpu"}
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
    }


@contextmanager
def nvtx_range(name: str, device: torch.device) -> Iterator[None]:
    """An NVTX range on this thread's row of the timeline; nothing on the CPU."""
    if device.type != "cuda":
        yield
        return
    import torch

    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def synchronize(device: torch.device) -> None:
    """Wait until the GPU has done all it was given; nothing on the CPU."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def parameters_of(given: argparse.Namespace) -> dict[str, Any]:
    """The flags as a record has them: all but those that name no parameter of the run."""
    return {name: value for name, value in vars(given).items() if name not in ("variant", "json", "list")}


def rounded(values: Sequence[float], digits: int = 6) -> list[float]:
    """Numbers cut to some significant digits, so that a record does not pretend to more."""
    return [float(f"{value:.{digits}g}") for value in values]
