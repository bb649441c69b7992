"""Commands on capture sets: list, verify, import, compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import PLAIN, Also, Review, judge
from labcode.terminal import console

captures_app = typer.Typer(
    help="The capture sets at hand: list, verify, import from another machine.", no_args_is_help=True, **PLAIN
)


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
        judge(doubts if review else [])
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
    judge(doubts or [])


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
    output_format: Annotated[str, typer.Option("--format", "-f", help="table, csv, json or md.")] = "table",
) -> None:
    """Two sets side by side: results of the programs, claims of the book, experiments that one lacks."""
    from labcode.analysis.compare import sets

    sets.run(first, second, fmt=output_format, output=sys.stdout)
