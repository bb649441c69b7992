"""The matmul ladders beside cuBLAS and Triton: sizes in; tables and a JSON record out.

The steps are timed by the program ``cuda/gemm``, which makes their tensor maps, in turns with cuBLAS and from
a cold cache; Triton by `labcode.experiments.compute.triton_gemm.program`, with cuBLAS of its own.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from labcode.analysis.kernel import products
from labcode.errors import LabError, ToolError
from labcode.experiments.shared.common import write_json
from labcode.kernels.topics import gemm
from labcode.outputs import DOCUMENT_SCHEMA, private_folder
from labcode.show import terminal
from labcode.tools import run_tool

SIZES = (4096, 8192)
MARKS = {"gemm_fp32": (0.92, 1.00), "gemm_bf16": (0.97, 1.02)}  # of cuBLAS: held to, and the stretch
_LIMIT_S = 300.0


def main(sizes: Sequence[int], repetitions: int, json_file: Path | None, console: Console) -> int:
    """Time both ladders at each size, print tables, write the record; 1 when an output was wrong."""
    if repetitions < 1 or any(not 1 <= n <= 1 << 15 for n in sizes):
        raise LabError("bench products: sizes are whole numbers from 1 to 32768, repetitions count from 1")
    runs: dict[str, dict[str, Any]] = {}
    for n in sizes or SIZES:
        flags = [word for side in "mnk" for word in (f"--{side}", str(n))]
        for kernel in gemm.KERNELS:
            words = ["cuda", "gemm", "--variant", kernel.name.removeprefix("gemm_")]
            runs[f"{kernel.name}, {n}"] = _run([*words, *flags, "--repetitions", str(repetitions)])
            render(runs[f"{kernel.name}, {n}"], kernel.name, n, console)
        try:
            triton = _run(["triton_gemm", *flags, "--repetitions", str(repetitions)])
        except ToolError as error:  # without PyTorch or Triton the ladders stand alone
            console.print(f"Triton: {error}", markup=False, highlight=False, soft_wrap=True)
            continue
        runs[f"triton, {n}"] = triton
        ratio = triton["results"]["triton_over_cublas_ratio"]
        console.print(f"Triton, bf16, {n}: {ratio:.3f} × cuBLAS beside it", highlight=False)
    if json_file is not None:
        write_json(json_file, {"schema": DOCUMENT_SCHEMA, "program": "bench_products", "runs": runs})
    wrong = [
        f"{name}: {check}"
        for name, record in runs.items()
        for check, found in record["checks"].items()
        if not found["passed"]
    ]
    for line in wrong:
        console.print(f"WRONG: {line}", markup=False, highlight=False)
    return 1 if wrong else 0


def render(record: dict[str, Any], kernel_name: str, n: int, console: Console) -> None:
    """Print a ladder's table, and how its fastest step stands to the mark."""
    (kernel,) = (one for one in gemm.KERNELS if one.name == kernel_name)
    steps = {step.variant: step for step in kernel.steps}
    found = products.ladder(record)
    title = f"{kernel.name}, {n} × {n} × {n}, medians, in brackets the quartiles"
    columns = ("µs", "TFLOP/s", "÷ cuBLAS", "reckoned", "error against fp64")
    table = terminal.table("candidate", right=columns, title=title)
    for name, row in found.iterrows():
        step = steps.get(str(name))
        remark = "" if step is None or step.helped else " (did not help)"
        table.add_row(
            (step.name if step else "cuBLAS") + remark,
            f"{row['time_us']:,.1f} [{row['q1_us']:,.1f} {row['q3_us']:,.1f}]",
            f"{row['tflop_per_s']:,.1f}",
            f"{row['ratio']:.3f}",
            "" if step is None else f"{step.predicted:.3g}",
            f"{row['error']:.1e}",
            style=None if step else "dim",
        )
    console.print(table)
    best = found.drop(index=products.LIBRARY, errors="ignore")["ratio"].max()
    mark, stretch = MARKS[kernel_name]
    if best == best:
        verdict = "holds" if best >= mark else "falls short"
        console.print(
            f"{verdict}: {best:.3f} × cuBLAS (mark {mark:.2f}, stretch {stretch:.2f})", highlight=False
        )


def _run(words: Sequence[str]) -> dict[str, Any]:
    """The record of a workload, run in a process of its own."""
    with private_folder() as folder:
        path = folder / "record.json"
        what = " ".join(words[:2])
        command: list[str | Path] = [
            sys.executable,
            "-m",
            f"labcode.workloads.{words[0]}",
            *words[1:],
            "--json",
            path,
        ]
        done = run_tool(command, _LIMIT_S, what=what)
        if not path.is_file():
            raise ToolError(f"{what}: {done.last_line() or f'failed with exit code {done.returncode}'}")
        return dict(json.loads(path.read_text(encoding="utf-8")))
