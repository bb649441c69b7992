"""Commands that need the machine: what it has, and what is recorded on it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import Force
from labcode.errors import LabError
from labcode.outputs import free
from labcode.show.terminal import console
from labcode.units import parse_time

DOCTOR_LIMIT_S = 10.0  # for all external programs that are asked, together


def doctor(
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine has and permits, what of the book can run here, and how to enable the rest."""
    import json

    from labcode import tools
    from labcode.doctor import probe

    with tools.within(DOCTOR_LIMIT_S):
        report = probe.probe()
    if json_output:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        probe.render(report, console())


def capture(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments to run; all of them when none is named.")
    ] = None,
    set_name: Annotated[
        str, typer.Option("--set", help="Name of the capture set, a folder in captures/.")
    ] = "",
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    only_missing: Annotated[
        bool, typer.Option("--only-missing", help="Capture what the set lacks or holds stale, nothing else.")
    ] = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", help="Capture what the set holds stale (`labcode captures plan`) and no more."
        ),
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", help="Capture what fits into this time, such as 30m: what matters most first."
        ),
    ] = "",
    gpus: Annotated[
        str, typer.Option("--gpus", help="GPUs that share the work, an experiment each, such as 0,1.")
    ] = "",
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Also write one file to carry to another machine.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace an archive that is there already; so does --only-missing."),
    ] = False,
) -> None:
    """Run experiments under their profiler on this GPU machine and file the results in a capture set."""
    from labcode.capture import catalogue, runner, schedule
    from labcode.doctor import probe
    from labcode.doctor.machine import machine_record

    if list_only:
        catalogue.render(console(), set_name or None)
        return
    if not set_name:
        raise LabError("capture: name the set to file into with --set NAME (for instance --set my-h100)")
    if stale and only_missing:
        raise LabError("capture: --stale and --only-missing are two different wishes; give one")
    free(archive, force=force or only_missing or stale)
    wishes = runner.Wishes(
        parse_time(budget, "--budget", least_s=1.0) if budget else None,
        schedule.parse_gpus(gpus, probe.gpu_count()) if gpus else (),
    )
    code = runner.capture(
        experiments or [],
        set_name,
        machine=machine_record,
        doctor=probe.probe,
        only_missing=only_missing,
        stale=stale,
        wishes=wishes,
        archive=archive,
        console=console(stderr=True),
    )
    raise typer.Exit(code)


def kit(
    output: Annotated[Path, typer.Option("--output", "-o", help="The .tar to write.")] = Path(
        "labcode-kit.tar"
    ),
    python: Annotated[str, typer.Option("--python", help="The machine's version of Python.")] = "3.12",
    machine: Annotated[str, typer.Option("--machine", help="Its processor: x86_64 or aarch64.")] = "x86_64",
    more: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE", help="Another package, such as torch or cupy-cuda13x."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PACKAGE", help="Leave out a package that the machine has."),
    ] = None,
    lab: Annotated[bool, typer.Option("--lab/--no-lab", help="Whether the repository comes along.")] = True,
    force: Force = False,
) -> None:
    """Pack what a GPU machine without network needs: packages, libdw for nsys, the repository."""
    from labcode.kit import gather

    free(output, force=force)
    wanted = gather.Wanted(python, machine, tuple(more or ()), tuple(without or ()), lab)
    for line in gather.summary(output, wanted, gather.make(output, wanted)):
        typer.echo(line)


def energy(
    command: Annotated[
        list[str],
        typer.Argument(help="The program to measure and its arguments, after --.", metavar="COMMAND..."),
    ],
    period: Annotated[str, typer.Option("--period", help="Time between samples: 100ms, 20ms, 1s.")] = "100ms",
    idle: Annotated[
        str, typer.Option("--idle", help="How long to meter the idle GPU first; 0s: not at all.")
    ] = "1s",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the log: X.power.json or X.power.json.xz.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw power over time: X.svg.")] = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the energies as JSON on stdout; what the command prints goes to stderr."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live display.")] = False,
    force: Force = False,
) -> None:
    """Run a command and say how many joules the GPUs that it can see used meanwhile, with error bars.

    Write -- before the command. Energies are those of whole GPUs, whoever uses them. The report goes to
    stderr; the exit code is the command's, or 128 and the number of the signal that ended it.
    """
    from labcode.profiling import energy as metering

    wishes = metering.Wishes(
        parse_time(period, "--period"), parse_time(idle, "--idle"), output, plot, json_output, quiet, force
    )
    raise typer.Exit(metering.energy(command, wishes))


def record(
    command: Annotated[
        list[str],
        typer.Argument(help="The program to record and its arguments, after --.", metavar="COMMAND..."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The report: X.html, X.md, X.json; recordings go beside it."),
    ] = Path("report.html"),
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool",
            help="nsys or torch (torch.profiler); twice for both: the program then runs twice, and what they "
            "say of the same ranges is joined. Without it nsys, or torch where there is no nsys or no GPU.",
        ),
    ] = None,
    energy: Annotated[bool, typer.Option("--energy", help="Meter the GPUs meanwhile, too.")] = False,
    before: Annotated[
        Path | None, typer.Option("--before", metavar="FILE", help="A recording of before to compare with.")
    ] = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines/--no-lines", help="Whether to record stacks, so that verdicts name lines of code."
        ),
    ] = True,
    limit: Annotated[
        str,
        typer.Option(
            "--limit", help="End the program after this time, such as 2min, and judge that; 0s: never."
        ),
    ] = "0s",
    force: Force = False,
) -> None:
    """Record a program with the tool that suits and make its report: labcode record -- python train.py.

    Keep it short: some steps are enough. The exit code is the program's, 124 at the time limit; when it
    crashes, what was recorded until then is shown.
    """
    from labcode.profiling.record import record as recorded

    code = recorded(
        command,
        output,
        sys.stderr,
        tools=tool or [],
        energy=energy,
        lines=lines,
        before=before,
        limit_s=parse_time(limit, "--limit") or None,
        force=force,
    )
    raise typer.Exit(code)


def profile(
    asked: typer.Context,
    script: Annotated[
        str,
        typer.Argument(help="A Python script or another program; after it, its arguments.", metavar="SCRIPT"),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS...")] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="auto, single, multi-gpu, multi-node or deepspeed.")
    ] = "auto",
    tool: Annotated[
        str,
        typer.Option(
            "--tool",
            help="nsys, ncu, torch or energy (which meters the idle GPUs for 1 s before and 0.3 s after; "
            "--tool-arg=--idle=0s: not before).",
        ),
    ] = "nsys",
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="Ranks per node, one per GPU.")] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes; in SLURM, the allocation's.")
    ] = None,
    rendezvous: Annotated[
        str,
        typer.Option("--rendezvous", metavar="HOST:PORT", help="Where nodes meet, the same on each of them."),
    ] = "",
    cpu: Annotated[bool, typer.Option("--cpu", help="Without GPUs: --gpus counts processes.")] = False,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module's name.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where captures go; default SCRIPT-TOOL."),
    ] = None,
    force: Force = False,
    delay: Annotated[
        str | None, typer.Option("--delay", help="nsys, torch: time before recording, such as 20s.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", help="nsys, torch: time that is recorded, such as 5s.")
    ] = None,
    within: Annotated[
        str, typer.Option("--range", metavar="NAME", help="nsys, ncu: record inside this NVTX range alone.")
    ] = "",
    warmup: Annotated[
        int, typer.Option("--warmup", help="torch: steps of the optimizer before recording.")
    ] = 3,
    steps: Annotated[int, typer.Option("--steps", min=1, help="torch: steps that are recorded.")] = 5,
    kernel: Annotated[str, typer.Option("--kernel", "-k", metavar="REGEX", help="ncu: kernels' names.")] = "",
    launches: Annotated[int, typer.Option("--launches", min=1, help="ncu: launches of those.")] = 5,
    rank: Annotated[int, typer.Option("--rank", min=0, help="ncu: the rank that is profiled.")] = 0,
    tool_args: Annotated[
        list[str] | None,
        typer.Option("--tool-arg", metavar="WORD", help="Another option of the tool; may be repeated."),
    ] = None,
    limit: Annotated[
        str, typer.Option("--limit", help="End the program after this time, such as 10min; 0s: never.")
    ] = "0s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands and stop.")] = False,
    diagnosis: Annotated[
        bool, typer.Option("--diagnosis/--no-diagnosis", help="Whether to judge what was captured.")
    ] = True,
) -> None:
    """Profile a script as it is, on one GPU, several, or several nodes, and judge what was captured.

    torchrun, deepspeed and srun start the ranks, nsys, ncu, torch.profiler or the power meter record them;
    --dry-run prints the commands. Options come before SCRIPT. What this prints goes to stderr; the exit code
    is the script's, of several ranks that of the first to fail; 124 at the time limit.
    """
    from contextlib import nullcontext
    from typing import cast

    from labcode.profiling import plan as plans
    from labcode.profiling import run

    own = {name for option in asked.command.params for name in option.opts if name.startswith("--")}
    if late := [word for word in arguments or () if word.partition("=")[0] in own]:
        note = f"note: {', '.join(late)} after {script} goes to it; options of labcode profile come before it"
        typer.echo(note, err=True)
    if not dry_run:
        run.refuse_nesting(os.environ)
    wishes = plans.Wishes(
        script,
        tuple(arguments or ()),
        module,
        cast(plans.Mode, plans.known("--mode", mode, plans.MODES)),
        cast(plans.Tool, plans.known("--tool", tool, plans.TOOLS)),
        gpus,
        nodes,
        cpu,
        rendezvous,
        output,
        None if delay is None else parse_time(delay, "--delay"),
        None if duration is None else parse_time(duration, "--duration"),
        within,
        warmup,
        steps,
        kernel,
        launches,
        rank,
        tuple(tool_args or ()),
    )
    limit_s = parse_time(limit, "--limit") or None
    plan = run.planned(wishes, dry=dry_run)
    if dry_run:
        for line in plan.lines():
            typer.echo(line)
        return
    run.prepare(plan, force=force)
    with run.rules_meanwhile() if diagnosis else nullcontext():
        outcome = run.execute(plan, limit_s=limit_s)
    found = run.mark_partial(plan, outcome)
    run.tell(plan, outcome, found, limit_s, sys.stderr)
    if diagnosis and found:
        run.diagnose(plan, found, sys.stderr)
    if not outcome.exit_code and len(found) < plan.recorded:
        raise typer.Exit(2)
    raise typer.Exit(outcome.exit_code)
