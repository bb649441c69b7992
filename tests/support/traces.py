"""Traces in Kineto's layout, made up: a description of what ran in, files as torch.profiler writes them out.

`Trace` puts single events together; `training` makes a run of a data-parallel training with as many ranks,
steps and layers as wanted, also far beyond a gigabyte (`python -m tests.support.traces FOLDER --ranks 4
--steps 400`).
"""

# ruff: noqa: E501 (lines of the files, as they are)

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
PID, MAIN, BACKWARD = 4242, 4242, 4300
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def us(ns: int) -> str:
    """Nanoseconds as Kineto writes microseconds."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


class Trace:
    """Events of one rank, as texts; times are whole nanoseconds on the trace's clock."""

    def __init__(self, *, pid: int = PID, device: int = 0, rank: int | None = None, world: int = 1) -> None:
        self.pid, self.device, self.rank, self.world = pid, device, rank, world
        self.events: list[str] = []
        self._external = 0
        self._correlation = 100_000
        self._python = 0

    def event(self, cat: str, name: str, start: int, end: int, tid: int, args: str, pid: Any = None) -> None:
        where = self.pid if pid is None else pid
        tid = self.pid if tid == MAIN else tid  # the main thread has its process' number
        self.events.append(
            f'  {{\n    "ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {where}, "tid": {tid},\n'
            f'    "ts": {us(start)}, "dur": {us(end - start)},\n    "args": {{\n      {args}\n    }}\n  }}'
        )

    def op(
        self, name: str, start: int, end: int, *, tid: int = MAIN, sequence: int | None = None,
        fwd: int | None = None, dims: Any = None, strides: Any = None, types: Any = None,
    ) -> int:  # fmt: skip
        self._external += 1
        parts = [f'"External id": {self._external}']
        if sequence is not None:
            parts.append(f'"Sequence number": {sequence}, "Fwd thread id": {fwd or 0}')
        parts.append('"Record function id": 0')
        if dims is not None:
            parts.append(
                f'"Concrete Inputs": {json.dumps([""] * len(dims))}, '
                f'"Input type": {json.dumps(types or ["float"] * len(dims))}, '
                f'"Input Strides": {json.dumps(strides or [[1] * len(d) for d in dims])}, '
                f'"Input Dims": {json.dumps(dims)}'
            )
        parts.append(f'"Ev Idx": {self._external - 1}')
        self.event("cpu_op", name, start, end, tid, ", ".join(parts))
        return self._external

    def annotation(self, name: str, start: int, end: int, *, tid: int = MAIN) -> int:
        self._external += 1
        args = f'"External id": {self._external},"Record function id": 0, "Ev Idx": {self._external - 1}'
        self.event("user_annotation", name, start, end, tid, args)
        return self._external

    def call(
        self, name: str, start: int, end: int, *, external: int | None = None, tid: int = MAIN,
        correlation: int | None = None, driver: bool = False,
    ) -> int:  # fmt: skip
        self._correlation += 1
        number = self._correlation if correlation is None else correlation
        owner = number if external is None else external
        category = "cuda_driver" if driver else "cuda_runtime"
        args = f'"External id": {owner}, "cbid": 211, "correlation": {number}'
        self.event(category, name, start, end, tid, args)
        self.flow("s", number, start, self.pid, tid)
        return number

    def kernel(
        self, name: str, start: int, end: int, correlation: int, *, external: int | None = None,
        stream: int = 7, grid: Sequence[int] = (132, 1, 1), block: Sequence[int] = (128, 1, 1), more: str = "",
    ) -> None:  # fmt: skip
        owner = correlation if external is None else external
        args = (
            f'"External id": {owner}, "queued": 0, "device": {self.device}, "context": 1,\n'
            f'      "stream": {stream}, "correlation": {correlation},\n'
            f'      "registers per thread": 32,\n      "shared memory": 0,\n      "blocks per SM": 1.000000,\n'
            f'      "warps per SM": 4.000000,\n      "grid": {list(grid)},\n      "block": {list(block)},\n'
            f'      "est. achieved occupancy %": 6{", " + more if more else ""}'
        )
        self.event("kernel", name, start, end, stream, args, pid=self.device)
        self.flow("f", correlation, start, self.device, stream)

    def copy(
        self, what: str, start: int, end: int, correlation: int, size: int, *, external: int | None = None,
        stream: int = 7,
    ) -> None:  # fmt: skip
        owner = correlation if external is None else external
        args = (
            f'"External id": {owner}, "device": {self.device}, "context": 1,\n      "stream": {stream}, '
            f'"correlation": {correlation},\n      "bytes": {size}, "memory bandwidth (GB/s)": 1.5'
        )
        category = "gpu_memset" if what.startswith("Memset") else "gpu_memcpy"
        self.event(category, what, start, end, stream, args, pid=self.device)
        self.flow("f", correlation, start, self.device, stream)

    def python(
        self, name: str, start: int, end: int, parent: int | None = None, *, tid: int = MAIN,
        module: int | None = None,
    ) -> int:  # fmt: skip
        self._python += 1
        args = f'"Python parent id": {"null" if parent is None else parent}, "Python id": {self._python}'
        args += "" if module is None else f', "Python module id": {module}'
        self.event("python_function", name, start, end, tid, args + ', "Ev Idx": 0')
        return self._python

    def memory(self, at: int, size: int, allocated: int, *, address: int = 1, device: int = 0) -> None:
        args = (
            f'"Total Reserved": {1 << 30}, "Total Allocated": {allocated}, "Bytes": {size}, '
            f'"Device Id": {device}, "Device Type": {0 if device < 0 else 1}, "Addr": {address}'
        )
        self.events.append(
            '  {\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n'
            f'    "pid": {self.pid}, "tid": {self.pid},\n    "ts": {us(at)},\n    "args": {{\n      {args}\n    }}\n  }}'
        )

    def flow(self, phase: str, number: int, at: int, pid: int, tid: int, what: str = "ac2g") -> None:
        end = ', "bp": "e"' if phase == "f" else ""
        tid = self.pid if tid == MAIN else tid
        self.events.append(
            f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {us(at)},\n'
            f'    "cat": "{what}", "name": "{what}"{end}\n  }}'
        )

    def launch(
        self, name: str, call: tuple[int, int], run: tuple[int, int], *, external: int | None = None,
        tid: int = MAIN, stream: int = 7, via: str = "cudaLaunchKernel", more: str = "",
    ) -> int:  # fmt: skip
        """A call and the kernel that it launches."""
        number = self.call(via, *call, external=external, tid=tid)
        self.kernel(name, *run, number, external=external, stream=stream, more=more)
        return number

    # ---- the text

    def head(self) -> str:
        members = [
            '  "schemaVersion": 1',
            f'  "deviceProperties": [\n    {{\n      "id": {self.device}, "name": "NVIDIA H200", "totalGlobalMem": '
            '150121021440,\n      "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132\n    }\n  ]',
        ]
        if self.rank is not None:
            info = {"backend": "nccl", "rank": self.rank, "world_size": self.world, "pg_count": 1}
            members.append(f'  "distributedInfo": {json.dumps(info)}')
        members += ['  "displayTimeUnit": "ms"', f'  "baseTimeNanoseconds": {BASE_NS}']
        return "\n{\n" + ",\n".join(members) + ',\n  "traceEvents": [\n'

    def first(self) -> str:
        return (
            f'  {{\n    "ph": "M", "name": "process_name", "ts": 0.000, "pid": {self.pid}, "tid": 0,\n'
            '    "args": {\n      "name": "python"\n    }\n  },\n'
            f'  {{\n    "ph": "M", "name": "thread_name", "ts": 0.000, "pid": {self.pid}, "tid": {self.pid},\n'
            f'    "args": {{\n      "name": "thread {self.pid} (python)"\n    }}\n  }}'
        )

    def last(self) -> str:
        return (
            '  {\n    "ph": "X", "cat": "Trace", "ts": 0.000, "dur": 1.000,\n    "pid": "Spans", "tid": '
            '"PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    '
            '}\n  },\n  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", '
            '"ts": 0.000\n  }'
        )

    def text(self) -> str:
        body = ",\n".join([self.first(), *self.events, self.last()])
        return self.head() + body + '\n  ],\n  "traceName": "trace.json"\n}\n'

    def write(self, path: Path) -> Path:
        data = self.text().encode()
        if path.name.endswith(".gz"):
            data = gzip.compress(data, 6, mtime=0)
        path.write_bytes(data)
        return path


def step(trace: Trace, number: int, begin: int, layers: int, seed: int, *, late: int = 0) -> int:
    """One step of training: forward, backward with a reduction beside it, the optimizer; returns its end."""
    draw = random.Random(seed * 1_000_003 + number)
    cpu, gpu, talk = begin + 20_000, begin + 60_000, begin
    trace.annotation(f"ProfilerStep#{number}", begin, begin + 10_000)
    at = len(trace.events) - 1

    def work(op: str, kernel: str, spent: int, *, tid: int = MAIN, sequence: int | None = None) -> None:
        nonlocal cpu, gpu
        took = draw.randrange(8_000, 16_000)
        outer = trace.op(op, cpu, cpu + took, tid=tid, sequence=sequence, dims=[[64, 512], [512, 512]])
        inner = trace.op(f"{op}_out", cpu + 1_000, cpu + took - 500, tid=tid, dims=[[64, 512]])
        del outer
        gpu = max(gpu + 1_500, cpu + 6_500) + draw.randrange(0, 300)
        trace.launch(
            kernel, (cpu + 2_000, cpu + 5_000), (gpu, gpu + spent), external=inner, tid=tid
        )  # fmt: skip
        gpu += spent
        cpu += took + draw.randrange(500, 2_000)

    started = cpu
    for layer in range(layers):
        work("aten::addmm", GEMM, draw.randrange(9_000, 30_000), sequence=10 * number + layer)
        work("aten::add", ADD, draw.randrange(2_000, 5_000))
    trace.annotation("forward", started - 500, cpu)
    started = cpu
    for layer in range(layers):
        work("aten::mm", GEMM, draw.randrange(9_000, 30_000), tid=BACKWARD, sequence=10 * number + layer)
        talk = max(talk, gpu - 4_000, cpu) + late
        length = draw.randrange(8_000, 20_000)
        op = trace.op("record_param_comms", cpu, cpu + 6_000, tid=BACKWARD)
        more = (
            '"Collective name": "allreduce", "In msg nelems": 262144, "Out msg nelems": 262144, '
            f'"Group size": {trace.world}, "dtype": "Float"'
        )
        trace.launch(
            NCCL, (cpu + 1_000, cpu + 4_000), (talk, talk + length), external=op, tid=BACKWARD, stream=20,
            via="cudaLaunchKernelExC", more=more,
        )  # fmt: skip
        talk += length
        cpu += 8_000
    trace.annotation("backward", started - 500, cpu, tid=BACKWARD)
    started = cpu
    for _ in range(2 * layers):
        work("aten::add_", ADD, draw.randrange(1_500, 3_000))
    trace.annotation("Optimizer.step#AdamW.step", started - 500, cpu)
    item = trace.op("aten::item", cpu, max(cpu, gpu) + 12_000)
    number_of_copy = trace.call("cudaMemcpyAsync", cpu + 1_000, cpu + 4_000, external=item)
    gpu = max(gpu, talk, cpu + 6_000) + 1_000
    trace.copy("Memcpy DtoH (Device -> Pageable)", gpu, gpu + 1_200, number_of_copy, 4, external=item)
    trace.call("cudaStreamSynchronize", cpu + 4_500, gpu + 2_000, external=item)
    end = gpu + 15_000
    trace.events[at] = trace.events[at].replace(f'"dur": {us(10_000)}', f'"dur": {us(end - begin)}', 1)
    return end


def training(
    folder: Path, *, ranks: int = 1, steps: int = 3, layers: int = 4, seed: int = 1, packed: bool = False
) -> list[Path]:
    """Write a trace for each rank; every step is written as it is made, so size costs no memory."""
    made = []
    for rank in range(ranks):
        trace = Trace(pid=PID + rank, device=rank, rank=rank if ranks > 1 else None, world=ranks)
        name = f"run.rank{rank}.trace.json" if ranks > 1 else "run.trace.json"
        path = folder / (name + ".gz" * packed)
        with gzip.open(path, "wt", 6) if packed else path.open("w") as stream:
            stream.write(trace.head() + trace.first())
            for piece in _steps(trace, steps, layers, seed + rank, late=700 * (rank == ranks - 1 > 0)):
                stream.write(",\n" + piece)
            stream.write(",\n" + trace.last() + '\n  ],\n  "traceName": "trace.json"\n}\n')
        made.append(path)
    return made


def _steps(trace: Trace, steps: int, layers: int, seed: int, late: int) -> Iterator[str]:
    at = 1_000_000_000
    for number in range(steps):
        at = step(trace, number, at, layers, seed, late=late)
        yield ",\n".join(trace.events)
        trace.events.clear()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    for option, usual in (("--ranks", 4), ("--steps", 100), ("--layers", 100), ("--seed", 1)):
        words.add_argument(option, type=int, default=usual)
    words.add_argument("--packed", action="store_true")
    given = vars(words.parse_args())
    given["folder"].mkdir(parents=True, exist_ok=True)
    for file in training(**given):
        print(file, file.stat().st_size)
