"""``labcode bench``: arguments in, one of the lab's own benchmarks run, an exit code out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

bench_app = typer.Typer(
    help="Measure the lab itself: its kernels beside ceilings and libraries.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@bench_app.callback()
def _root() -> None:
    """Keep the names of benchmarks, even while there is only one."""


@bench_app.command("kernels")
def bench_kernels(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A kernel or topic; may be repeated. All without it.")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the kernels and their steps and stop.")
    ] = False,
    repetitions: Annotated[int, typer.Option("--repetitions", help="Timings of each candidate.")] = 15,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw the ratios into X.svg, X.png or X.pdf.")
    ] = None,
) -> None:
    """Check the kernels, then time them beside the device copy and the libraries, all in one run."""
    from labcode.kernels import bench_report

    if list_only:
        bench_report.list_kernels(only or [])
        return
    raise typer.Exit(bench_report.main(only or [], repetitions, json_file, plot_file))
