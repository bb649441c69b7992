"""The ``labcode`` command: arguments in, one function of the lab called, an exit code out.

Exit codes: 0 done, 1 the answer is no (a failed exercise, a stale capture), 2 bad use or bad input, 128 and
the signal's number when a signal ended it.
Every command imports what it needs when it runs, so that ``labcode --help``
starts without pandas, matplotlib or torch.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from labcode import __version__
from labcode.bench.cli import bench_app
from labcode.ending import Ended, signals_as_exceptions
from labcode.errors import LabError, describe_os_error
from labcode.terminal import console, guarded

_PLAIN = {"rich_markup_mode": None, "context_settings": {"help_option_names": ["-h", "--help"]}}

app = typer.Typer(
    name="labcode",
    help="The Profiling Lab: capture, read, analyze and draw GPU profiles; grade the book's exercises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    **_PLAIN,  # type: ignore[arg-type]
)
captures_app = typer.Typer(
    help="The capture sets at hand: list, verify, import from another machine.",
    no_args_is_help=True,
    **_PLAIN,  # type: ignore[arg-type]
)
app.add_typer(captures_app, name="captures")
app.add_typer(bench_app, name="bench")

DOCTOR_LIMIT_S = 10.0  # for all external programs that are asked, together
Also = Annotated[
    list[str] | None,
    typer.Option("--also", metavar="NAME", help="A name that must not be published: a host's, a person's."),
]
Review = Annotated[
    bool, typer.Option("--review", help="List what cannot be told from harmless text, for you to judge.")
]
SetName = Annotated[str, typer.Option("--set", help="Name of the capture set, a folder in captures/.")]


KernelName = Annotated[
    str | None,
    typer.Option("--kernel", "-k", metavar="REGEX", help="Only launches whose kernel's name matches."),
]
LaunchNumber = Annotated[
    int | None, typer.Option("--launch", metavar="N", help="Only the launch with this number, from 0.")
]


def _is_ncu(file: Path) -> bool:
    return file.name.endswith((".ncu-rep", ".ncu-rep.xz"))


def _is_trace(file: Path) -> bool:
    name = file.name.lower()
    return file.is_dir() or (name.endswith((".json", ".json.gz")) and ".memory.json" not in name)


def _is_memory(file: Path) -> bool:
    return file.name.lower().endswith((".memory.json", ".memory.json.xz", ".memory.json.gz"))


def _version(value: bool) -> None:
    if value:
        typer.echo(f"labcode {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before the command."""


@app.command()
def doctor(
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine has and permits, what of the book can run here, and how to enable the rest."""
    import json

    from labcode import tools
    from labcode.hardware import probe

    with tools.within(DOCTOR_LIMIT_S):
        report = probe.probe()
    if json_output:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        probe.render(report, console())


@app.command()
def capture(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments to run; all of them when none is named.")
    ] = None,
    set_name: SetName = "",
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Skip what is already there and fresh.")] = False,
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Also write one file to carry to another machine.")
    ] = None,
) -> None:
    """Run experiments under their profiler on this GPU machine and file the results in a capture set."""
    from labcode.capture import catalogue, runner

    if list_only:
        catalogue.render(console(), set_name or None)
        return
    if not set_name:
        raise LabError("capture: name the set to file into with --set NAME (for instance --set my-h100)")
    code = runner.capture(
        experiments or [], set_name, resume=resume, archive=archive, console=console(stderr=True)
    )
    raise typer.Exit(code)


@captures_app.command("list")
def captures_list() -> None:
    """List the capture sets, their machines and experiments."""
    from labcode.capture import catalogue

    catalogue.render_sets(console())


@captures_app.command("verify")
def captures_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Sets to check; all of them when none is named.")
    ] = None,
    also: Also = None,
    review: Review = False,
) -> None:
    """Check hashes and freshness, and that nothing private is inside. Exit 1 when something is wrong."""
    from labcode import store
    from labcode.capture import verify

    wrong = 0
    for name in names or store.list_sets():
        doubts: list[str] = []
        findings = verify.verify(name, also=tuple(also or ()), review=doubts)
        for finding in findings:
            typer.echo(f"{name}: {finding}")
        wrong += len(findings)
        if not findings:
            typer.echo(f"{name}: whole, fresh, nothing private inside")
        _judge(doubts if review else [])
    raise typer.Exit(1 if wrong else 0)


@captures_app.command("add")
def captures_add(
    archive: Annotated[Path, typer.Argument(help="A file written by `labcode capture --archive`.")],
    also: Also = None,
    review: Review = False,
) -> None:
    """Import experiments captured on another machine; with --review only list what is for you to judge."""
    from labcode.capture import archive as archives

    doubts: list[str] | None = [] if review else None
    for line in archives.add(archive, also=tuple(also or ()), review=doubts):
        typer.echo(line)
    _judge(doubts or [])


def _judge(doubts: Sequence[str]) -> None:
    """Print what only people can judge."""
    for line in doubts:
        typer.echo(f"for you to judge: {line}")


@captures_app.command("restamp")
def captures_restamp(set_name: Annotated[str, typer.Argument(help="The set to restamp.")]) -> None:
    """After sources moved: check each capture by its digests, and name its sources where they lie today."""
    from labcode.capture import restamp

    for line in restamp.restamp(set_name):
        typer.echo(line)


@captures_app.command("compare")
def captures_compare(
    first: Annotated[str, typer.Argument(help="A capture set.")],
    second: Annotated[str, typer.Argument(help="Another one; ratios are its values by the first's.")],
    output_format: Annotated[str, typer.Option("--format", "-f", help="table, csv, json or md.")] = "table",
) -> None:
    """Two sets side by side: results of the programs, claims of the book, experiments that one lacks."""
    from labcode.capture import compare_sets

    compare_sets.run(first, second, fmt=output_format, output=sys.stdout)


@app.command()
def stats(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="nsys exports (.sqlite, .sqlite.xz), reports (.nsys-rep, .ncu-rep), traces of "
            "torch.profiler (.json, .json.gz, a folder of ranks), memory histories (.memory.json.xz)."
        ),
    ],
    report: Annotated[
        list[str] | None,
        typer.Option("--report", "-r", help="Report name as in `nsys stats`; may be repeated."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every report for which there are data.")] = False,
    output_format: Annotated[str, typer.Option("--format", "-f", help="table, csv, json or md.")] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Write a file for each capture and report."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there already.")] = False,
    kernel: KernelName = None,
    launch: LaunchNumber = None,
) -> None:
    """Print reports of captures, or write them to files, named, computed and printed as by `nsys stats`.

    Of Nsight Compute's reports (.ncu-rep): speed_of_light, occupancy, memory, stalls, instructions, rules,
    roofline, source, launches, details, raw. Of traces of torch.profiler (.trace.json, .trace.json.gz, or a
    folder with one for each rank): op_sum, kernel_sum, op_kernel_trace, module_sum, idle_breakdown,
    comm_overlap, queue_length, launch_stats, memory_timeline, op_sum_python, steps, arrivals. Of histories
    of PyTorch's allocator (.memory.json, .memory.json.xz): peak, sites, leaks, allocations, live_bytes.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that no report needs
    if any(_is_ncu(file) for file in files):
        from labcode.analysis.stats import ncu as ncu_stats

        made = ncu_stats.run(
            *(files, report or [], output_format, sys.stdout),
            every=every,
            folder=output,
            force=force,
            kernel=kernel,
            launch=launch,
        )
        for path in made:
            typer.echo(str(path))
        return
    if kernel is not None or launch is not None:
        raise LabError("stats: --kernel and --launch choose launches of .ncu-rep files")
    if any(_is_trace(file) for file in files):
        from labcode.analysis.stats import kineto as kineto_stats

        made = kineto_stats.run(
            *(files, report or [], output_format, sys.stdout), every=every, folder=output, force=force
        )
        for path in made:
            typer.echo(str(path))
        return
    if any(_is_memory(file) for file in files):
        from labcode.analysis.stats import memory as memory_stats

        made = memory_stats.run(
            *(files, report or [], output_format, sys.stdout), every=every, folder=output, force=force
        )
        for path in made:
            typer.echo(str(path))
        return
    from labcode.analysis.stats import many as nsys_many

    if output is None:
        nsys_many.print_all(files, report or [], output_format, sys.stdout, every=every)
        return
    written = nsys_many.write_all(files, report or [], output_format, output, every=every, force=force)
    for path in written.files:
        typer.echo(str(path))
    for line in written.skipped:
        typer.echo(f"skipped: {line}", err=True)


@app.command()
def export(
    files: Annotated[
        list[Path], typer.Argument(help="nsys exports (.sqlite, .sqlite.xz) or reports (.nsys-rep).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")],
    output_format: Annotated[
        str, typer.Option("--format", "-f", help="csv or parquet: the reader's tables; sqlite: the export.")
    ] = "csv",
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table of the reader; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there already.")] = False,
) -> None:
    """Write the tables of captures to files; a report (.nsys-rep) is exported by nsys first."""
    from labcode.reports.nsys import export as nsys_export

    for path in nsys_export.export_all(files, output, output_format, tables=table or [], force=force):
        typer.echo(str(path))


@app.command()
def diagnose(
    file: Annotated[
        Path | None, typer.Argument(help="An nsys export, a report, or a trace of torch.profiler.")
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
    output_format: Annotated[str, typer.Option("--format", "-f", help="table, json or md.")] = "table",
    kernel: KernelName = None,
    launch: LaunchNumber = None,
) -> None:
    """Judge a capture by expert rules: each verdict with its evidence and a bound on what mending gains."""
    if file is not None and _is_ncu(file):
        from labcode.analysis.rules import ncu_driver as ncu_diagnose

        if rule_files:
            raise LabError(f"diagnose: rules of your own judge nsys captures; leave out --rules for {file}")
        ncu_diagnose.run(
            file, fmt=output_format, only=only or [], output=sys.stdout, kernel=kernel, launch=launch
        )
        return
    from labcode.analysis.rules import driver as rulebook

    if list_only:
        from labcode.analysis.rules import kineto_driver as kineto_diagnose
        from labcode.analysis.rules import ncu_driver as ncu_diagnose

        rulebook.list_rules(sys.stdout, rule_files or [])
        sys.stdout.write("\nmore rules on traces of torch.profiler\n")
        kineto_diagnose.list_rules(sys.stdout)
        sys.stdout.write("\nrules on the launches of .ncu-rep files\n")
        ncu_diagnose.list_rules(sys.stdout)
        return
    if file is None:
        raise LabError("diagnose: name a capture to judge, or list the rules with --list")
    if _is_memory(file):
        raise LabError(f"{file}: a history of the allocator; no rule judges it: see `labcode stats -r leaks`")
    if _is_trace(file):
        from labcode.analysis.rules import kineto_driver as kineto_diagnose

        code = kineto_diagnose.run(
            file,
            fmt=output_format,
            only=only or [],
            rule_files=rule_files or [],
            output=sys.stdout,
            notes=sys.stderr,
        )
        raise typer.Exit(code)
    code = rulebook.run(
        file, fmt=output_format, only=only or [], rule_files=rule_files or [], output=sys.stdout
    )
    raise typer.Exit(code)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="The capture to compare with.")],
    after: Annotated[Path, typer.Argument(help="The capture to judge.")],
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
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Show only totals, kernels, ranges or transfers.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", "-f", help="table, csv, json or md.")] = "table",
    kernel: KernelName = None,
) -> None:
    """Compare kernels, ranges and transfers of two captures: ratios with intervals, new and vanished ones.

    Two reports of Nsight Compute (.ncu-rep) are compared kernel by kernel: which metrics changed.
    """
    if _is_ncu(before) or _is_ncu(after):
        from labcode.analysis.compare import ncu as ncu_compare

        for file in (before, after):
            if not _is_ncu(file):
                raise LabError(f"{file}: compare a .ncu-rep with another .ncu-rep")
        if gate or only:
            raise LabError("compare: --gate and --only choose among events of nsys captures; use --kernel")
        code = ncu_compare.run(
            *(before, after), fail_above=fail_above, fmt=output_format, output=sys.stdout, kernel=kernel
        )
        raise typer.Exit(code)
    for file in (before, after):
        if _is_memory(file):
            raise LabError(f"{file}: a history of the allocator; compare what `labcode stats` says of each")
    from labcode.analysis.compare import driver as comparison

    code = comparison.run(
        before,
        after,
        fail_above=fail_above,
        fmt=output_format,
        gates=gate or [],
        only=only or [],
        output=sys.stdout,
    )
    raise typer.Exit(code)


@app.command()
def timeline(
    file: Annotated[Path, typer.Argument(help="An nsys export, a report, or a trace of torch.profiler.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="X.svg, X.html, X.json or X.json.gz.")],
    window: Annotated[
        str | None, typer.Option("--window", help="Part to draw: a range's name, step#3, 10ms..25ms, or all.")
    ] = None,
) -> None:
    """Draw the timeline: a picture, an interactive page, or a Chrome trace for Perfetto.

    Of a history of PyTorch's allocator (.memory.json, .memory.json.xz): what was in use, as a picture (.svg).
    """
    if _is_memory(file):
        from labcode.figures.charts import memory

        if window is not None:
            raise LabError(
                f"timeline: --window is for timelines of captures and traces; leave it out for {file}"
            )
        typer.echo(str(memory.write_memory_timeline(file, output)))
        return
    from labcode.figures.timeline import export

    typer.echo(str(export.write_timeline(file, output, window=window)))


@app.command()
def flame(
    file: Annotated[Path, typer.Argument(help="An nsys export or report with samples.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="X.svg, X.html, X.json or X.txt.")],
    of: Annotated[
        str, typer.Option("--of", help="python, cpu, or launches: stacks of CUDA calls.")
    ] = "python",
    thread: Annotated[str | None, typer.Option("--thread", help="Only this thread: number or name.")] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="Part to draw: a range's name, step#3, 10ms..25ms, or all.")
    ] = None,
) -> None:
    """Draw a flame graph: a picture, an interactive page, a file for speedscope, or folded stacks."""
    from labcode.figures.pages import flame_export

    typer.echo(str(flame_export.write_flame(file, output, of=of, thread=thread, window=window)))


@app.command()
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
) -> None:
    """Draw the roofline of the launches in a report: intensities at L1, L2 and DRAM under the roofs."""
    from labcode.figures.charts import roofline as picture

    written = picture.write_roofline(
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


@app.command()
def scrub(
    file: Annotated[
        Path,
        typer.Argument(help="An nsys export, a report (.ncu-rep) or a trace (.json, .json.gz) to publish."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the scrubbed copy.")
    ] = None,
    also: Also = None,
    review: Review = False,
) -> None:
    """Take host name, user, environment, process list and paths out of an export, a report or a trace."""
    from labcode.capture import ncu_scrub, scan, torch_profile
    from labcode.capture import scrub as scrubber

    if _is_ncu(file):
        written = ncu_scrub.scrub_file(file, output, tuple(also or ()))
    elif file.name.endswith((".json", ".json.gz", ".json.xz")):
        written = torch_profile.scrub_file(file, output, tuple(also or ()))
    else:
        written = scrubber.scrub_file(file, output, tuple(also or ()))
    typer.echo(str(written))
    _judge(scan.look_into(written, str(written)).review if review else ())


@app.command()
def exercises(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Exercises to grade; all of them when none is named.")
    ] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the next hint instead of grading.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Grade again whenever the file is saved.")] = False,
    reset: Annotated[str | None, typer.Option("--reset", metavar="ID", help="Put a starter back.")] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="For authors: check that solutions pass and starters fail.")
    ] = False,
) -> None:
    """Grade your answers to the book's exercises."""
    from labcode.grading import run

    code = run.main(ids or [], hint=hint, watch=watch, reset=reset, solutions=solutions, console=console())
    raise typer.Exit(code)


@app.command()
def book(
    captures: Annotated[
        str | None, typer.Option("--captures", help="The capture set to build around.")
    ] = None,
    what: Annotated[str, typer.Option("--what", help="html, live, linkcheck, notebooks or pdf.")] = "html",
    strict: Annotated[
        bool, typer.Option("--strict", help="Clean build; any warning or false claim fails.")
    ] = False,
    update_claims: Annotated[
        bool, typer.Option("--update-claims", help="Record the values of this build's claims in the set.")
    ] = False,
) -> None:
    """Build the book around a capture set."""
    from labcode.book import build

    raise typer.Exit(build.build(captures, what, strict=strict, update_claims=update_claims))


def _fail(message: str) -> NoReturn:
    print(f"labcode: {message}", file=sys.stderr)
    sys.exit(2)


def _abandon_stdout() -> None:
    """Print what can still be printed, and keep the interpreter from trying again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point: run the command line and turn every foreseeable failure into one line and an exit code."""
    with guarded(), signals_as_exceptions():
        _main()


def _main() -> NoReturn:
    gc.set_threshold(50_000)  # looking for cycles among what importing makes takes a tenth of the start
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except LabError as error:
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        print("labcode: interrupted; nothing was left half-written", file=sys.stderr)
        sys.exit(130)
    except Ended as ended:
        print(f"labcode: ended by {ended}; nothing was left half-written", file=sys.stderr)
        sys.exit(128 + ended.number)
    except BrokenPipeError:
        _abandon_stdout()
        sys.exit(0)
    except OSError as error:
        _abandon_stdout()
        _fail(describe_os_error(error))
    except RecursionError:
        _fail("what was read is nested too deep for a capture; record it again")
    except Exception as error:
        # Newer Typer bundles its own copy of click, so a usage error is known by what it can do.
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        if type(error).__name__ == "NoArgsIsHelpError":  # no command was named: its message is the help text
            print(describe() or "", file=sys.stderr)
            sys.exit(2)
        _fail(" ".join(str(describe()).split()) + hint)
