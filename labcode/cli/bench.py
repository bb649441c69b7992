"""``labcode bench``: arguments in, one of the benchmarks run, an exit code out."""

from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import PLAIN, Force
from labcode.outputs import free

bench_app = typer.Typer(
    help="Measure what the book teaches: its kernels beside libraries, its verdicts beside planted causes.",
    no_args_is_help=True,
    **PLAIN,
)


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
    force: Force = False,
) -> None:
    """Check the kernels, then time them beside the device copy and the libraries, all in one run."""
    from labcode.bench import kernels

    if list_only:
        kernels.list_kernels(only or [])
        return
    free(json_file, plot_file, force=force)
    raise typer.Exit(kernels.main(only or [], repetitions, json_file, plot_file))


@bench_app.command("products")
def bench_products(
    n: Annotated[
        list[int] | None,
        typer.Option("--n", help="Rows and columns; may be repeated. 4096 and 8192 without it."),
    ] = None,
    repetitions: Annotated[int, typer.Option("--repetitions", help="Timings of each candidate.")] = 12,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
    force: Force = False,
) -> None:
    """Check every step of the matmul ladders and time it beside cuBLAS and Triton."""
    from labcode.bench import products
    from labcode.show.terminal import console

    free(json_file, force=force)
    raise typer.Exit(products.main(n or [], repetitions, json_file, console()))


@bench_app.command("diagnosis")
def bench_diagnosis(
    set_name: Annotated[str, typer.Option("--set", help="The capture set with the recorded cases.")] = "h100",
    aside: Annotated[
        bool, typer.Option("--aside", help="Show the cases set aside, too; not for who writes rules.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
    force: Force = False,
) -> None:
    """Judge programs with one planted cause each: whether `labcode diagnose` names it first, and its gain."""
    from labcode.bench import diagnosis
    from labcode.show.terminal import console

    free(json_file, force=force)
    raise typer.Exit(diagnosis.main(set_name, show_aside=aside, json_file=json_file, console=console()))
