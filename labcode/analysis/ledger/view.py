"""A timeline in; its tables, read and joined once, and of each operation who owns its nanoseconds, out.

Where operations overlap, the first owner in the list has the time: what computes hides communication, and
both hide copies. Idle time goes to the first that applies, too.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from labcode.analysis.buckets import bucket_of_name
from labcode.analysis.timeline.joins import launches_of
from labcode.analysis.timeline.overlap import is_communication
from labcode.analysis.timeline.summary import host_memory
from labcode.reports.columns import AnyInts, Bools, Ints, process_keys, remembering
from labcode.reports.frames import codes_of, is_any
from labcode.reports.nsys.report import NsysReport
from labcode.reports.report import TimelineReport

# names of matmuls and convolutions in fp32 that use no tensor cores (cuBLAS, cuDNN, CUTLASS)
SIMT = re.compile(
    r"(?i)(?:ampere|volta|turing|maxwell)_s(?:gemm|cudnn)|simt_sgemm|implicit_convolve_sgemm|"
    r"f32f32_f32f32_f32|_ffma_|magma_sgemm|gemmSN_\w+<float|gemmk1_kernel<int, float|^void sgemm_"
)
Side = Literal["computing", "moving", "idle"]


@dataclass(frozen=True)
class Owner:
    """An owner: its id, what is said of it, and whether the GPU computes, moves data or is idle."""

    id: str
    title: str
    side: Side


OWNERS = (
    Owner("no-tensor-cores", "matmuls and convolutions in fp32 without tensor cores", "computing"),
    Owner("matmul", "matmuls and convolutions", "computing"),
    Owner("attention", "attention", "computing"),
    Owner("reduction", "normalization, softmax, sums", "computing"),
    Owner("elementwise", "elementwise", "computing"),
    Owner("layout", "copies by kernels: layout, dtype, fills", "computing"),
    Owner("indexing", "indexing, embeddings, sorting", "computing"),
    Owner("optimizer", "optimizer", "computing"),
    Owner("kernel", "other kernels and graphs", "computing"),
    Owner("late-rank", "waiting for a late rank", "moving"),
    Owner("communication", "communication, nothing beside it", "moving"),
    Owner("copy-in", "copies to the GPU, nothing beside them", "moving"),
    Owner("copy-out", "copies from the GPU, nothing beside them", "moving"),
    Owner("copy", "copies within or between GPUs, memsets", "moving"),
    Owner("profiler", "idle: the profiler held the program up", "idle"),
    Owner("loading", "idle: compiling or loading code", "idle"),
    Owner("allocation", "idle: allocating or freeing memory", "idle"),
    Owner("data-loading", "idle: loading data", "idle"),
    Owner("host-code", "idle: the program's own code on the CPU", "idle"),
    Owner("sync", "idle: drained by a synchronization", "idle"),
    Owner("copy-call", "idle: the CPU is in a copy's call", "idle"),
    Owner("launch", "idle: waiting for the next launch", "idle"),
    Owner("queued", "idle: between operations that were launched in time", "idle"),
    Owner("unknown", "idle: the capture does not tell why", "idle"),
)
CODE = {owner.id: code for code, owner in enumerate(OWNERS)}
_OF_BUCKET = {
    "matmul": "matmul",
    "convolution": "matmul",
    "attention": "attention",
    "softmax": "reduction",
    "normalization": "reduction",
    "reduction": "reduction",
    "elementwise": "elementwise",
    "copy": "layout",
    "indexing": "indexing",
    "optimizer": "optimizer",
    "communication": "communication",
    "other": "kernel",
}


def owner_of_name(name: str) -> str:
    """The owner of a kernel by its name."""
    bucket = bucket_of_name(name)
    if bucket in ("matmul", "convolution") and SIMT.search(name):
        return "no-tensor-cores"
    return _OF_BUCKET[bucket]


def owners_of(ops: pd.DataFrame) -> AnyInts:
    """The code of the owner of each GPU operation."""
    codes, names = codes_of(ops["name"])
    by_name = [CODE[owner_of_name(str(name))] for name in names]
    found = np.array([*by_name, CODE["kernel"]], np.int8)[codes]
    copies, sets, graphs, kernels = (
        is_any(ops["kind"], kind) for kind in ("memcpy", "memset", "graph", "kernel")
    )
    if copies.any():
        ways = [
            "copy-in" if "H2D" in str(one) else "copy-out" if "D2H" in str(one) else "copy" for one in names
        ]
        found[copies] = np.array([*(CODE[way] for way in ways), CODE["copy"]], np.int8)[codes[copies]]
    found[sets] = CODE["copy"]
    found[graphs] = CODE["kernel"]
    found[kernels & is_communication(ops).to_numpy()] = CODE["communication"]
    return found


class View:
    """What the ledger and the replay look at; every table is read when it is first asked for."""

    def __init__(self, report: TimelineReport) -> None:
        self.report = report
        self.hosts: dict[tuple[int, tuple[int, int]], Any] = {}  # what `labcode.analysis.ledger.ledger` found

    @cached_property
    def ops(self) -> pd.DataFrame:
        """All GPU operations, by start."""
        ops = self.report.gpu_ops()
        if ops["start_ns"].is_monotonic_increasing:
            return ops if isinstance(ops.index, pd.RangeIndex) else ops.reset_index(drop=True)
        return ops.sort_values("start_ns", kind="stable", ignore_index=True)

    @cached_property
    def api(self) -> pd.DataFrame:
        """All calls of CUDA."""
        return self.report.api()

    @cached_property
    def nvtx(self) -> pd.DataFrame:
        """All ranges."""
        return self.report.nvtx()

    @cached_property
    def row(self) -> Ints:
        """For each operation the position in ``api`` of the call that launched it; -1: none."""
        return launches_of(self.report, self.ops, self.api)

    @cached_property
    def owner(self) -> AnyInts:
        """For each operation its owner (`labcode.analysis.ledger.view`)."""
        return owners_of(self.ops)

    @cached_property
    def pageable(self) -> Bools:
        """For each operation whether it copies from or to pageable memory of the host."""
        found = np.zeros(len(self.ops), np.bool_)
        copies = self.report.memcpys()
        slow = copies[["pid", "correlation"]][is_any(host_memory(copies), "pageable")]
        if len(slow):
            rows = np.flatnonzero(is_any(self.ops["kind"], "memcpy"))
            keys, theirs = process_keys(
                *(self.ops[c].to_numpy(np.int64)[rows] for c in ("pid", "correlation")),
                *(slow[c].to_numpy(np.int64) for c in ("pid", "correlation")),
            )
            found[rows] = np.isin(keys, theirs)
        return found

    def of_call(self, column: str, missing: int = -1) -> Ints:
        """A column of the launching call for each operation; ``missing`` where there is none."""
        return np.append(self.api[column].to_numpy(np.int64), missing)[self.row]


T = TypeVar("T")
KEPT = ("window", "kernels", "memcpys", "memsets", "graph_launches", "gpu_ops", "api", "nvtx", "gpus")


def kept(report: TimelineReport) -> TimelineReport:
    """The report, which from now on keeps the tables that are asked for many times: reading takes long."""
    if isinstance(report, NsysReport):
        report.source.keeps = True
        for name in KEPT:
            method = getattr(report, name)
            if not hasattr(method, "cache_info"):
                setattr(report, name, functools.cache(functools.partial(_remembered, method)))
    return report


def _remembered(method: Callable[[], T]) -> T:
    with remembering():
        return method()
