"""Commands that read what was recorded, of any kind: tables, verdicts, comparisons, pictures."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import Also, Force, Review, TablesAs, VerdictsAs, formats, judge
from labcode.errors import LabError
from labcode.outputs import free

KernelName = Annotated[
    str | None,
    typer.Option("--kernel", "-k", metavar="REGEX", help="Only launches whose kernel's name matches."),
]
LaunchNumber = Annotated[
    int | None, typer.Option("--launch", metavar="N", help="Only the launch with this number, from 0.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Of a folder with a report for each rank, where they are read: a Dask scheduler "
        "(tcp://host:8786, X.json), slurm:16 for 16 jobs by dask-jobqueue, or here, in this process. "
        "Without it in processes of this machine.",
    ),
]
JudgedWindow = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="Part to judge: steady (the iterations after the warm-up; the default), all, a range's "
        "name, step#3, or "
        "10ms..25ms.",
    ),
]


def _reports(incomplete: str) -> list[str]:
    """What may stand where the name of a report is begun, perhaps after others and a comma."""
    from labcode.verbs.stats import every_name

    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in every_name()]


def stats(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="nsys exports (.sqlite, .sqlite.xz, .nsys.xz), reports (.nsys-rep, .ncu-rep), traces of "
            "torch.profiler (.json, .json.gz), memory histories (.memory.json.xz), "
            "power logs (.power.json, .power.json.xz); or a folder with a report for each rank."
        ),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            "-r",
            help="Report name as in `nsys stats`, or several: NAME,NAME.",
            autocompletion=_reports,
        ),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the reports there are, or that the files can answer.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Every report for which there are data.")] = False,
    output_format: TablesAs = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Write a file for each capture and report."),
    ] = None,
    force: Force = False,
    kernel: KernelName = None,
    launch: LaunchNumber = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="Of power logs: the nsys export of the same run, for range_energy_sum. Of traces: an "
            "earlier one, for op_diff.",
        ),
    ] = None,
    scheduler: Scheduler = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help="Part to report on, of captures and traces: steady (the iterations after the warm-up), all, "
            "a range's name, step#3, or 10ms..25ms. Rows outside are left out, those that reach over an edge "
            "cut off there, as diagnose does.",
        ),
    ] = None,
) -> None:
    """Print reports of captures, or write them to files; of nsys captures as `nsys stats` prints them.

    Every kind of file has reports of its own, and files of several kinds can be named together: `labcode
    stats --list` names all reports, `labcode stats --list FILE` those that a file can answer.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that no report needs
    from labcode.verbs import stats as verb

    if list_only:
        verb.list_reports(files or [], output_format, sys.stdout)
        return
    names = tuple(dict.fromkeys(name for one in report or [] for name in one.split(",") if name))
    asked = verb.Asked(names, every, kernel, launch, beside, scheduler, window)
    if output is None:
        verb.print_all(files or [], asked, output_format, sys.stdout, notes=sys.stderr)
        return
    written = verb.write_all(files or [], asked, output_format, output, force=force, notes=sys.stderr)
    for path in written.files:
        typer.echo(str(path))
    for line in written.skipped:
        typer.echo(f"skipped: {line}", err=True)


def export(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Exports of nsys (.sqlite, .sqlite.xz, .nsys.xz), or .nsys-rep; for pftrace also traces."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")],
    output_format: Annotated[
        str,
        formats(
            *("csv", "parquet", "sqlite", "pftrace"),
            told="csv or parquet: the reader's tables; sqlite: the export; pftrace: a trace for Perfetto.",
        ),
    ] = "csv",
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table of the reader; may be repeated.")
    ] = None,
    force: Force = False,
) -> None:
    """Write the tables of captures to files; a report (.nsys-rep) is exported by nsys first."""
    from labcode.verbs import export as verb

    if output_format == "pftrace":
        if table:
            raise LabError("export: --table chooses among the reader's tables; a trace holds all events")
        from labcode.verbs import timeline

        for path in timeline.export_traces(files, output, force=force):
            typer.echo(str(path))
        return

    for path in verb.export(files, output, output_format, tables=table or [], force=force):
        typer.echo(str(path))


def diagnose(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="An nsys export, a report, a trace of torch.profiler, a power log, or a folder of ranks."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", "--rule", metavar="RULE", help="Judge by this rule alone; may be repeated."),
    ] = None,
    rule_files: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="FILE.py", help="A Python file with rules of your own, too."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the rules and stop.")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="In the table also the evidence, and the figures of what was not found."),
    ] = False,
    output_format: VerdictsAs = "table",
    kernel: KernelName = None,
    launch: LaunchNumber = None,
    scheduler: Scheduler = None,
    window: JudgedWindow = None,
) -> None:
    """Judge a capture by expert rules: where an iteration's time goes, each cause with what mending gains."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from labcode.verbs.diagnose import verdicts as verb

    if list_only:
        verb.list_rules(sys.stdout, rule_files or [])
        return
    if file is None:
        raise LabError("diagnose: name a capture to judge, or list the rules with --list")
    code = verb.run(
        file,
        fmt=output_format,
        only=only or [],
        rule_files=rule_files or [],
        kernel=kernel,
        launch=launch,
        scheduler=scheduler,
        window=window,
        everything=everything,
        output=sys.stdout,
        notes=sys.stderr,
    )
    raise typer.Exit(code)


def compare(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Before and after; or more, each compared with the first, or with --baseline."),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option("--fail-above", metavar="PCT", help="Exit 1 when something got slower by more."),
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="KIND:NAME",
            help="Let --fail-above judge this alone: period:step*, kernel:*gemm*, transfer:H2D, total. "
            "May be repeated.",
        ),
    ] = None,
    undecided_exit: Annotated[
        int | None,
        typer.Option(
            "--undecided-exit",
            metavar="CODE",
            help="Exit with this where nothing failed, but an interval reaches beyond --fail-above (or 5 %).",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Show only totals, kernels, ranges or transfers.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="NAME=FILE,FILE", help="Runs of the same thing, with a name; may be repeated."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="NAME", help="What all are compared with: a file, a group, or kept."
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="KEY=N,N",
            help="A parameter and its value in each file or group: batch=1,8,64.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="X.svg", help="Draw the times over the --column.")
    ] = None,
    force: Force = False,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="NAME", help="Keep these runs as a baseline of this name.")
    ] = None,
    kept_in: Annotated[
        Path, typer.Option("--baselines", metavar="FILE", help="Where baselines are kept.")
    ] = Path("labcode-baselines.json"),
    output_format: TablesAs = "table",
    kernel: KernelName = None,
    scheduler: Scheduler = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window", help="Part of two timelines to compare: steady, all, a range's name, 10ms..25ms."
        ),
    ] = None,
) -> None:
    """Compare kernels, ranges and transfers of two captures: ratios with intervals, new and vanished ones.

    Two reports of Nsight Compute (.ncu-rep) are compared kernel by kernel: which metrics changed. Two power
    logs (.power.json) window by window: which used more energy. Two folders with a report for each rank by
    what the rank in the middle and the worst one do. Of more than two, or of groups of repeated runs, the
    medians and their spread, and which changes exceed it.
    """
    from labcode.verbs.compare import many
    from labcode.verbs.compare import run as verb

    if plot is not None and column is None:
        raise LabError(f"{plot}: what is drawn are times over a parameter; name it with --column KEY=N,N")
    free(plot, force=force)
    code = verb.run(
        many.Asked(files or [], group or [], baseline, column, keep, kept_in),
        fail_above=fail_above,
        fmt=output_format,
        gates=gate or [],
        only=only or [],
        kernel=kernel,
        scheduler=scheduler,
        window=window,
        undecided_exit=undecided_exit,
        plot=plot,
        output=sys.stdout,
    )
    raise typer.Exit(code)


def timeline(
    file: Annotated[Path, typer.Argument(help="An nsys export, a report, or a trace of torch.profiler.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="X.svg, X.html, X.pftrace, X.json or X.json.gz.")
    ],
    window: Annotated[
        str | None, typer.Option("--window", help="Part to draw: a range's name, step#3, 10ms..25ms, or all.")
    ] = None,
    scheduler: Scheduler = None,
    force: Force = False,
) -> None:
    """Draw the timeline: a picture, an interactive page, or a Chrome trace for Perfetto.

    Beside a page of more than 500,000 events a folder X.tiles is written, which it loads from.

    Of a history of PyTorch's allocator (.memory.json, .memory.json.xz): what was in use, as a picture (.svg);
    of a power log (.power.json): power over time, the same; of a folder with a report for each rank: what
    each did when, the same.
    """
    free(output, force=force, reads=[file])
    from labcode.verbs import timeline as verb

    typer.echo(str(verb.write_timeline(file, output, window=window, scheduler=scheduler)))


def flame(
    file: Annotated[Path, typer.Argument(help="An nsys export or report with samples, or a trace.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="X.svg, X.html, X.json or X.txt.")],
    of: Annotated[
        str,
        typer.Option("--of", help="python, cpu; of nsys: launches (CUDA calls); of traces: modules."),
    ] = "python",
    thread: Annotated[str | None, typer.Option("--thread", help="Only this thread: number or name.")] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="Part to draw: a range's name, step#3, 10ms..25ms, or all.")
    ] = None,
    force: Force = False,
) -> None:
    """Draw a flame graph: a picture, an interactive page, a file for speedscope, or folded stacks."""
    from labcode.verbs import flame as verb

    free(output, force=force, reads=[file])
    typer.echo(str(verb.write_flame(file, output, of=of, thread=thread, window=window)))


def roofline(
    file: Annotated[Path, typer.Argument(help="A report of Nsight Compute (.ncu-rep).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="X.svg, X.png or X.pdf.")],
    kernel: KernelName = None,
    launch: LaunchNumber = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="Count these operations: fp64, fp32, fp16, fp16_tensor…")
    ] = None,
    ceilings: Annotated[
        Path | None, typer.Option("--ceilings", metavar="FILE.json", help="Add roofs that were measured.")
    ] = None,
    datasheet: Annotated[bool, typer.Option("--datasheet", help="Add the vendor's published peaks.")] = False,
    dark: Annotated[bool, typer.Option("--dark", help="For a dark page.")] = False,
    force: Force = False,
) -> None:
    """Draw the roofline of the launches in a report: intensities at L1, L2 and DRAM under the roofs."""
    free(output, force=force, reads=[file])
    from labcode.verbs import roofline as verb

    written = verb.write_roofline(
        file,
        output,
        kernel=kernel,
        launch=launch,
        precision=precision,
        ceilings=ceilings,
        datasheet=datasheet,
        mode="dark" if dark else "light",
    )
    typer.echo(str(written))


def report(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files of one run: a capture of nsys, a trace, a folder with one of either for each rank, "
            "reports of Nsight Compute, a power log, a history of the allocator."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="X.html, X.md or X.json; without it Markdown is printed."),
    ] = None,
    before: Annotated[
        list[Path] | None,
        typer.Option(
            "--before", metavar="FILE", help="A file of an earlier run to compare with; may be repeated."
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        formats("html", "md", "json", told="html, md or json; by default what the suffix says."),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="What stands above it; by default the files.")] = "",
    book: Annotated[
        str | None, typer.Option("--book", metavar="ADDRESS", help="Where the book's pages lie, to link to.")
    ] = None,
    window: JudgedWindow = None,
    force: Force = False,
) -> None:
    """Make one page on one program: where the time goes, the timeline, tables; several tools joined.

    The page opens from disk and needs no network. --format md is for pull requests, json for machines.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    free(output, force=force, reads=[*(files or []), *(before or [])])
    from labcode.verbs.report import page as verb

    written = verb.write_report(
        files or [],
        output,
        before=before or [],
        fmt=output_format,
        title=title,
        book=book,
        stream=sys.stdout,
        window=window,
    )
    if written is not None:
        typer.echo(str(written))


def scrub(
    file: Annotated[
        Path,
        typer.Argument(
            help="An nsys export, a report (.ncu-rep) or a trace (.json, .json.gz) to publish; or a snapshot "
            "of PyTorch's allocator (.pickle), to make a .memory.json of without running what is in it."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the scrubbed copy; else X.scrubbed beside it."),
    ] = None,
    also: Also = None,
    review: Review = False,
    force: Force = False,
) -> None:
    """Take host name, user, environment, process list and paths out of an export, a report or a trace."""
    from labcode.verbs import scrub as verb

    written = verb.scrub(file, output, also or (), force=force)
    typer.echo(str(written))
    judge(verb.doubts(written) if review else ())
