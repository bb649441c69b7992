"""The bench's record in; tables on a terminal, a JSON file and a plot out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from labcode.errors import LabError
from labcode.outputs import DOCUMENT_SCHEMA, whole
from labcode.show import byte_text, terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_SUFFIXES = (".svg", ".png", ".pdf")


def render(record: Mapping[str, Any], console: Console) -> None:
    """Print a table per problem, then the marks, then the checks that failed."""
    gpu, rows = record["gpu"], record["results"]["rows"]
    flushed = byte_text(record["parameters"]["flush_bytes"], binary=True)
    console.print(
        f"{gpu['name']}: {gpu['sm_count']} SMs, L2 cache {byte_text(gpu['l2_bytes'], binary=True)}; every "
        f"timing from a cold cache ({flushed} read before it); medians, in brackets the quartiles",
        highlight=False,
    )
    for kernel, problem in dict.fromkeys((row["kernel"], row["problem"]) for row in rows):
        mine = [row for row in rows if (row["kernel"], row["problem"]) == (kernel, problem)]
        console.print(_table(kernel, problem, mine, gpu["l2_bytes"]))
    for mark in record["results"]["marks"]:
        stretch = f", stretch {mark['stretch']:.2f}" if mark["stretch"] else ""
        console.print(
            f"{'holds' if mark['held'] else 'falls short'}: {mark['kernel']} {mark['problem']}, "
            f"{mark['step']}: {mark['ratio']:.3f} × {mark['against']} (mark {mark['at_least']:.2f}{stretch})",
            highlight=False,
        )
    failed = {name: check for name, check in record["checks"].items() if not check["passed"]}
    for name, check in failed.items():
        console.print(f"WRONG: {name}: {check['detail']}", highlight=False)
    passed = len(record["checks"]) - len(failed)
    console.print(f"checks: {passed} of {len(record['checks'])} passed", highlight=False)


def _table(kernel: str, problem: str, rows: list[Mapping[str, Any]], l2_bytes: int) -> Table:
    moved = rows[0]["bytes_moved"]
    read = byte_text(moved, binary=True)
    libraries = list(rows[0]["ratio_to_library"])
    columns = ("µs", "GB/s", "÷ copy", "reckoned", *(f"÷ {name}" for name in libraries), "registers")
    title = f"{kernel}, {problem}: {read} moved, {moved / l2_bytes:.3g} × the L2 cache"
    table = terminal.table("candidate", right=columns, title=title)
    for row in rows:
        remark = "" if row["helped"] else " (did not help)"
        spilled = f" + {row['spilled_bytes']} B spilled" if row["spilled_bytes"] else ""
        table.add_row(
            row["name"] + remark,
            f"{row['time_us']:,.1f} [{row['time_q1_us']:,.1f} {row['time_q3_us']:,.1f}]",
            f"{row['throughput_gb_per_s']:,.0f}",
            f"{row['ratio_to_copy']:.3f}",
            "" if row["predicted"] is None else f"{row['predicted']:.3g}",
            *(f"{row['ratio_to_library'][name]:.3f}" for name in libraries),
            "" if row["registers"] is None else f"{row['registers']}{spilled}",
            style="dim" if row["kind"] != "step" else None,
        )
    return table


def plot(record: Mapping[str, Any]) -> Figure:
    """Bars: every step's throughput as a share of the device copy's in the same run."""
    from labcode.figures.charts.basic import bars

    rows = [row for row in record["results"]["rows"] if row["kind"] == "step"]
    if not rows:
        raise LabError("nothing was timed, so there is nothing to plot")
    return bars(
        [f"{row['kernel']} {row['problem']}: {row['name']}" for row in rows],
        [row["ratio_to_copy"] for row in rows],
        unit="",
        quantity="throughput ÷ device copy, same run",
        roles=["kernel" if row["helped"] else "idle" for row in rows],
        limit=(1.0, "device copy"),
        format=lambda value: f"{value:.2f}",
    )


def write_plot(record: Mapping[str, Any], path: Path) -> None:
    """Draw the record into a .svg, .png or .pdf file; `LabError` for another ending."""
    from labcode.figures.style import figure_bytes, style

    require_plot_suffix(path)
    with whole(path) as part, style("light"):
        part.write_bytes(figure_bytes(plot(record), path.suffix[1:]))  # type: ignore[arg-type]


def require_plot_suffix(path: Path) -> None:
    """A `LabError` when a plot cannot be drawn into a file of this name."""
    if path.suffix not in PLOT_SUFFIXES:
        raise LabError(f"{path}: plots are written as {', '.join(PLOT_SUFFIXES)}; choose such a name")


def main(only: list[str], repetitions: int, json_file: Path | None, plot_file: Path | None) -> int:
    """Run the bench, print its tables, write what was asked for; exit code 1 when an output was wrong."""
    from labcode.experiments.shared.common import write_json
    from labcode.experiments.shared.kernel_times import bench

    if plot_file is not None:
        require_plot_suffix(plot_file)
    progress = terminal.console(stderr=True)
    record = bench(only, repetitions, lambda line: progress.print(line, highlight=False, style="dim"))
    render(record, terminal.console())
    if json_file is not None:
        write_json(json_file, {"schema": DOCUMENT_SCHEMA, **record})
    if plot_file is not None:
        write_plot(record, plot_file)
    return 0 if all(check["passed"] for check in record["checks"].values()) else 1


def list_kernels(only: list[str]) -> None:
    """Print the kernels, each with its steps and what it is held to."""
    from labcode.kernels.topics import kernels

    console = terminal.console()
    for kernel in kernels(only):
        marks = ", ".join(f"≥ {mark.at_least:.2f} × {mark.against}" for mark in kernel.marks)
        console.print(
            f"{kernel.name} ({kernel.topic}): {kernel.title}{'; ' + marks if marks else ''}", highlight=False
        )
        for step in kernel.steps:
            console.print(f"  {step.name}: {step.reason}", highlight=False)
