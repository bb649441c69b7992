"""Made-up captures for tests of figures: programs out of a few loops in, the tables of a report out."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tests.support import tables


@dataclass
class Tables:
    """Rows a table, threads with names, and the methods of a report that figures call."""

    rows: dict[str, list[tables.Row]] = field(default_factory=lambda: defaultdict(list))
    named: list[tuple[int, int, str]] = field(default_factory=list)
    span: tuple[int, int] | None = None

    def add(self, table: str, start: float, end: float, **values: Any) -> None:
        """A row; a process calls from its first thread, where no other is named."""
        if table in ("api", "nvtx"):
            values = {"tid": values.get("pid", 100), **values}
        if table == "nvtx":
            values = {"end_tid": values["tid"], **values}
        self.rows[table].append({"start_ns": round(start), "end_ns": round(end), **values})

    def window(self) -> tuple[int, int]:
        if self.span:
            return self.span
        times = [(row["start_ns"], row["end_ns"]) for rows in self.rows.values() for row in rows]
        return (min(a for a, _ in times), max(b for _, b in times)) if times else (0, 0)

    def kernels(self) -> pd.DataFrame:
        return tables.table("kernels", self.rows["kernels"])

    def memcpys(self) -> pd.DataFrame:
        return tables.table("memcpys", self.rows["memcpys"])

    def memsets(self) -> pd.DataFrame:
        return tables.ops(*({**row, "kind": "memset"} for row in self.rows["memsets"]))

    def graph_launches(self) -> pd.DataFrame:
        return tables.ops(*({**row, "kind": "graph"} for row in self.rows["graph_launches"]))

    def gpu_ops(self) -> pd.DataFrame:
        parts = [self.kernels(), self.memcpys(), self.memsets(), self.graph_launches()]
        return pd.concat(parts, ignore_index=True)

    def threads(self) -> pd.DataFrame:
        columns = {"pid": "int64", "tid": "int64", "name": "str"}
        return pd.DataFrame(self.named, columns=list(columns)).astype(columns)

    def api(self) -> pd.DataFrame:
        return tables.api(*self.rows["api"])

    def nvtx(self) -> pd.DataFrame:
        return tables.nvtx(*self.rows["nvtx"])


NAMES = [
    "nvjet_tst_128x256_64x4_2x1_v_bz_TNT",
    "vectorized_elementwise_kernel",
    "layer_norm_kernel",
    "reduce_kernel",
]


def training(steps: int = 20, *, gaps: bool = True, seed: int = 1) -> Tables:
    """A loop of training steps; with gaps, CPU work, .item() and a synchronize after every launch."""
    rng = np.random.default_rng(seed)
    t, out = 5_000_000.0, Tables()
    begin, gpu = t, t
    for _ in range(steps):
        step = t
        if gaps:
            out.add("nvtx", t, t + 400_000, name="load batch")
            t += 410_000
            out.add("api", t, t + 90_000, name="cudaMemcpyAsync")
            out.add("memcpys", t + 20_000, t + 85_000, bytes=4 << 20)
            t += 95_000
        for phase, count in (("forward", 12), ("backward", 24), ("optimizer", 6)):
            inside = t
            for i in range(count):
                out.add("api", t, t + 5_000, name="cudaLaunchKernel")
                duration = float(rng.gamma(4, 4_500 if i % 3 else 12_000))
                start = max(gpu, t + 7_000) + 900
                name = NAMES[0] if i % 3 == 0 else NAMES[int(rng.integers(1, 4))]
                out.add("kernels", start, start + duration, name=f"{name}(int)", short_name=name)
                gpu = start + duration
                t += 7_000
                if gaps:
                    out.add("api", t, gpu + 6_000, name="cudaStreamSynchronize")
                    t = gpu + 9_000
            out.add("nvtx", inside, t, name=phase)
        if gaps:
            out.add("nvtx", t, t + 60_000, name="loss.item()")
            out.add("api", t + 2_000, t + 40_000, name="cudaMemcpyAsync")
            out.add("memcpys", t + 30_000, t + 32_000, bytes=4, copy_kind="D2H")
            t += 62_000
        out.add("nvtx", step, t, name="step")
    out.add("api", t, gpu + 5_000, name="cudaDeviceSynchronize")
    out.add("nvtx", begin, gpu + 6_000, name="lab:measured")
    out.span = (round(begin), round(gpu + 6_000))
    return out


def streams(count: int = 8, kernels: int = 400) -> Tables:
    """Many small kernels on several streams, launched in turn."""
    rng = np.random.default_rng(2)
    t, out, free = 0.0, Tables(), [0.0] * count
    for i in range(count * kernels):
        s = i % count
        out.add("api", t, t + 1_900, name="cudaLaunchKernel")
        start = max(free[s] + 800, t + 4_000)
        free[s] = start + float(rng.normal(9_000, 800))
        out.add("kernels", start, free[s], name="busy_wait(int)", stream=13 + s)
        t += 2_100
    out.add("api", t, max(free) + 3_000, name="cudaDeviceSynchronize")
    out.span = (0, round(max(free) + 4_000))
    return out


def pipeline(chunks: int = 8, *, overlapped: bool = True, lanes: int = 3) -> Tables:
    """Chunks copied to the GPU, worked on, and copied back, one after the other or overlapped on streams."""
    out = Tables()
    h2d = kernel = d2h = 20_000.0
    t = 0.0
    for i in range(chunks):
        stream = 13 + i % lanes if overlapped else 7
        if not overlapped:
            h2d = max(h2d, d2h)
        for k, name in enumerate(("cudaMemcpyAsync", "cudaLaunchKernel", "cudaMemcpyAsync")):
            out.add("api", t + k * 5_000, t + k * 5_000 + 4_000, name=name)
        t += 15_000
        out.add("memcpys", h2d, h2d + 300_000, bytes=16 << 20, stream=stream)
        h2d += 303_000
        start = max(kernel, h2d)
        kernel = start + 180_000
        out.add("kernels", start, kernel, name="transform(float*)", stream=stream)
        start = max(d2h, kernel + 2_000)
        d2h = start + 310_000
        out.add("memcpys", start, d2h, bytes=16 << 20, copy_kind="D2H", stream=stream)
    out.add("api", t, d2h + 4_000, name="cudaDeviceSynchronize")
    out.add("nvtx", 0, d2h + 6_000, name="pipelined" if overlapped else "pinned")
    out.span = (0, round(d2h + 10_000))
    return out


def data_parallel(gpus: int = 4, steps: int = 3, *, overlapped: bool = True) -> Tables:
    """Data-parallel training: NCCL kernels after the backward pass or overlapped with it in buckets."""
    rng = np.random.default_rng(3)
    out = Tables()
    ends = []
    for g in range(gpus):
        pid, t, cpu = 1000 + g, 100_000.0 + 8_000 * g, 0.0
        nccl = t
        for _ in range(steps):
            begin = cpu
            for phase, layers, duration in (("forward", 8, 90_000), ("backward", 8, 180_000)):
                inside = cpu
                for layer in range(layers):
                    out.add("api", cpu, cpu + 9_000, name="cudaLaunchKernel", pid=pid)
                    cpu += 30_000
                    end = t + duration * float(rng.normal(1, 0.03))
                    out.add("kernels", t, end, name="gemm(float*)", pid=pid, device=g)
                    t = end + 2_000
                    if phase == "backward" and overlapped and layer % 2:
                        nccl = max(nccl, t)
                        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                        out.add("kernels", nccl, nccl + 210_000, name=name, pid=pid, device=g, stream=24)
                        nccl += 212_000
                out.add("nvtx", inside, cpu, name=phase, pid=pid)
            if not overlapped:
                name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                out.add("kernels", t, t + 840_000, name=name, pid=pid, device=g, stream=24)
                nccl = t + 840_000
            t = max(t, nccl)
            out.add("kernels", t, t + 110_000, name="adam(float*)", pid=pid, device=g)
            t += 112_000
            out.add("api", cpu, t + 5_000, name="cudaStreamSynchronize", pid=pid)
            cpu = t + 8_000
            out.add("nvtx", begin, cpu, name="step", pid=pid)
            t = cpu + 12_000
            nccl = t
        ends.append(cpu)
    out.span = (0, round(max(ends)))
    return out
