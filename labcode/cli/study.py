"""Commands of readers and authors: the exercises and the book."""

from __future__ import annotations

from typing import Annotated

import typer

from labcode.terminal import console


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
