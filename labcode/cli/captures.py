"""Commands on capture sets: list, verify, plan, carry between machines, merge, prune, compare."""

import glob
import sys
from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import PLAIN, Also, Force, PartSize, Review, TablesAs, VerdictsAs, judge
from labcode.outputs import free
from labcode.show import byte_text
from labcode.show.terminal import console

captures_app = typer.Typer(
    help="The capture sets at hand: list, verify, import from another machine.", no_args_is_help=True, **PLAIN
)


@captures_app.command("list")
def captures_list() -> None:
    """List the capture sets, their machines and experiments, and what of them is stale or elsewhere."""
    from labcode.capture import verify

    verify.render(console())


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
        for line in verify.disturbed(store.load_set(name)):
            typer.echo(f"{name}: {line}")
        if thin := verify.lacks(store.load_set(name)):
            typer.echo(f"{name}: {thin}")
        if not findings:
            whole = "what is here is unchanged" if thin else "whole"
            typer.echo(f"{name}: {whole}, fresh, nothing private inside")
        judge(doubts if review else [])
    raise typer.Exit(1 if wrong else 0)


@captures_app.command("plan")
def captures_plan(
    set_name: Annotated[
        str, typer.Argument(help="The set; the one that pages show when none is named.")
    ] = "",
    budget: Annotated[
        str,
        typer.Option("--budget", help="Also say how many slices of this length, such as 25min, it takes."),
    ] = "",
    output_format: VerdictsAs = "table",
) -> None:
    """Say what of a set is stale by which change, and what capturing it anew costs in minutes of which GPU.

    `labcode capture --stale --set SET --budget 25min` then captures exactly that, a slice each time it is
    called. Below it stands what the whole set took.
    """
    from labcode.capture import plan
    from labcode.units import parse_time

    slice_s = parse_time(budget, "--budget", least_s=1.0) if budget else None
    plan.run(set_name, slice_s, fmt=output_format, output=sys.stdout)


@captures_app.command("add")
def captures_add(
    archives: Annotated[list[Path], typer.Argument(help="Files written by `labcode capture --archive`.")],
    set_name: Annotated[
        str, typer.Option("--set", help="Import into this set, not the one that the archives name.")
    ] = "",
    other_gpu: Annotated[
        bool, typer.Option("--other-gpu", help="Allow captures of another model of GPU than the set's.")
    ] = False,
    also: Also = None,
    review: Review = False,
) -> None:
    """Import experiments captured on other machines; with --review only list what is for you to judge."""
    from labcode.capture import archive

    doubts: list[str] | None = [] if review else None
    for line in archive.add(
        archives, into=set_name, other_gpu=other_gpu, also=tuple(also or ()), review=doubts
    ):
        typer.echo(line)
    judge(doubts or [])


@captures_app.command("pack")
def captures_pack(
    set_name: Annotated[str, typer.Argument(help="The set to pack.")],
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments to pack; all of them when none is named.")
    ] = None,
    archive: Annotated[Path, typer.Option("--archive", help="The .tar file to write.")] = ...,  # type: ignore[assignment]
    part_size: PartSize = None,
    force: Force = False,
) -> None:
    """Write experiments of a set into an archive that `labcode captures add` takes, or into several."""
    from labcode import store
    from labcode.capture import archive as archives

    captures = store.load_set(set_name)
    archives.check_target(archive)
    if part_size is None:
        free(archive, force=force)
    else:
        free(*archive.parent.glob(f"{glob.escape(archive.stem)}-[0-9]*.tar"), force=force)
    names = [captures.experiment(name).id for name in experiments or captures.experiments]
    for path in archives.write(archive, captures.path, dict.fromkeys(names), part_bytes=part_size):
        size = path.stat().st_size
        typer.echo(
            f"{path}: {byte_text(size, binary=True)}"
            + (", more than asked for: it is one experiment" if part_size and size > part_size else "")
        )


@captures_app.command("merge")
def captures_merge(
    into: Annotated[str, typer.Argument(help="The set that experiments are filed into.", metavar="SET")],
    others: Annotated[
        list[str], typer.Argument(help="Sets of the same model of GPU to take them from.", metavar="FROM...")
    ],
    prefer: Annotated[
        str, typer.Option("--prefer", metavar="SET", help="The set that counts where they differ.")
    ] = "",
) -> None:
    """Make one set of several of one model of GPU; experiments captured differently in them are named."""
    from labcode.capture import whole_sets

    for line in whole_sets.merge(into, others, prefer=prefer):
        typer.echo(line)


@captures_app.command("prune")
def captures_prune(
    set_name: Annotated[str, typer.Argument(help="The set to prune.")],
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Where what is taken out goes; written.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Take it out without an archive.")] = False,
) -> None:
    """Take experiments that the catalogue no longer has out of a set."""
    from labcode.capture import whole_sets

    for line in whole_sets.prune(set_name, archive=archive, drop=drop):
        typer.echo(line)


@captures_app.command("export")
def captures_export(
    set_name: Annotated[str, typer.Argument(help="The set to export.")],
    archive: Annotated[Path, typer.Option("--archive", help="The .tar file to write.")] = ...,  # type: ignore[assignment]
) -> None:
    """Write a set whole, every file checked, with its claims' values, and FILE.tar.sha256 beside it."""
    from labcode.capture import whole_sets

    for line in whole_sets.export(set_name, archive):
        typer.echo(line)


@captures_app.command("thin")
def captures_thin(
    set_name: Annotated[str, typer.Argument(help="The set to make thin.")],
    archives: Annotated[
        list[Path] | None,
        typer.Option("--archive", help="Holds the traces that go; written where there is no such file."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="EXPERIMENT", help="Leaves this one's traces.")
    ] = None,
) -> None:
    """Leave the records of a set and take its traces out, which an archive must hold."""
    from labcode.capture import archive

    for line in archive.thin(set_name, keep or (), archives or ()):
        typer.echo(line)


@captures_app.command("restamp")
def captures_restamp(set_name: Annotated[str, typer.Argument(help="The set to restamp.")]) -> None:
    """After sources moved: check each capture by its digests, and name its sources where they lie today."""
    from labcode.capture import verify

    for line in verify.restamp(set_name):
        typer.echo(line)


@captures_app.command("compare")
def captures_compare(
    first: Annotated[str, typer.Argument(help="A capture set.")],
    second: Annotated[str, typer.Argument(help="Another one; ratios are its values by the first's.")],
    output_format: TablesAs = "table",
) -> None:
    """Two sets side by side: results of the programs, claims of the book, experiments that one lacks."""
    from labcode.analysis.compare import sets

    sets.run(first, second, fmt=output_format, output=sys.stdout)
