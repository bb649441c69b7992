"""``labcode bench``: arguments in, one of the lab's own benchmarks run, an exit code out."""

from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import PLAIN

bench_app = typer.Typer(
    help="Measure the lab itself: its kernels beside libraries, its reports beside those of nsys.",
    no_args_is_help=True,
    **PLAIN,
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
    from labcode.bench import kernels

    if list_only:
        kernels.list_kernels(only or [])
        return
    raise typer.Exit(kernels.main(only or [], repetitions, json_file, plot_file))


@bench_app.command("reports")
def bench_reports(
    file: Annotated[
        Path | None, typer.Argument(help="An nsys export to report on; a made-up one without it.")
    ] = None,
    ops: Annotated[int, typer.Option("--ops", help="GPU operations of the made-up export.")] = 2_000_000,
    mix: Annotated[
        str,
        typer.Option(
            "--mix", help="Of the made-up export: dense (half as many rows of every kind) or training."
        ),
    ] = "dense",
    nsys: Annotated[
        Path | None, typer.Option("--nsys", help="The nsys to compare with; the one at hand without it.")
    ] = None,
    repetitions: Annotated[
        int,
        typer.Option("--repetitions", help="Runs of each report and program; one where nsys takes long."),
    ] = 3,
    streams: Annotated[int, typer.Option("--streams", help="Reports measured side by side.")] = 1,
    limit: Annotated[
        float | None, typer.Option("--limit", help="Seconds after which no report is waited for.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A report; may be repeated. All without it.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Time `labcode stats` beside `nsys stats`, report by report, and compare what they print.

    Of the made-up export as it is without options every report has a million rows of its own or more; nsys
    takes minutes for some of them.
    """
    from labcode.bench import reports
    from labcode.show.terminal import console

    code = reports.main(
        file,
        ops=ops,
        mix=mix,
        nsys=nsys,
        repetitions=repetitions,
        only=only or [],
        json_file=json_file,
        console=console(),
        streams=streams,
        limit_s=limit,
    )
    raise typer.Exit(code)


@bench_app.command("products")
def bench_products(
    n: Annotated[
        list[int] | None,
        typer.Option("--n", help="Rows and columns; may be repeated. 4096 and 8192 without it."),
    ] = None,
    repetitions: Annotated[int, typer.Option("--repetitions", help="Timings of each candidate.")] = 12,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Check every step of the matmul ladders and time it beside cuBLAS and Triton."""
    from labcode.bench import products
    from labcode.show.terminal import console

    raise typer.Exit(products.main(n or [], repetitions, json_file, console()))


@bench_app.command("meter")
def bench_meter(
    seconds: Annotated[float, typer.Option("--seconds", help="How long to measure.")] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Time training loops step by step beside the power meter: what a reading costs them."""
    from labcode.bench import meter
    from labcode.show.terminal import console

    raise typer.Exit(meter.main(seconds, json_file, console()))


@bench_app.command("ranks")
def bench_ranks(
    capture: Annotated[Path, typer.Argument(help="The capture that ranks are made up after.")],
    ranks: Annotated[list[int] | None, typer.Option("--ranks", help="How many; may be repeated.")] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="As of labcode stats: where the reports are read.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Make up ranks, one of them slow, and time how long it takes to find it."""
    from labcode.bench import ranks as many
    from labcode.show.terminal import console

    raise typer.Exit(many.main(capture, ranks or [128, 1024], scheduler, json_file, console()))


@bench_app.command("diagnosis")
def bench_diagnosis(
    set_name: Annotated[str, typer.Option("--set", help="The capture set with the recorded cases.")] = "h100",
    aside: Annotated[
        bool, typer.Option("--aside", help="Show the cases set aside, too; not for who writes rules.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Judge programs with one planted cause each: whether `labcode diagnose` names it first, and its gain."""
    from labcode.bench import diagnosis
    from labcode.show.terminal import console

    raise typer.Exit(diagnosis.main(set_name, show_aside=aside, json_file=json_file, console=console()))
