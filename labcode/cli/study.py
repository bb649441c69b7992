"""Commands of readers and authors: the exercises and the book."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import Force, TablesAs
from labcode.errors import LabError, ToolError
from labcode.outputs import free
from labcode.show.terminal import console


def exercises(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Exercises to grade; a part or a kind to list; all without one."),
    ] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the next hint instead of grading.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Grade again whenever the file is saved.")] = False,
    reset: Annotated[str | None, typer.Option("--reset", metavar="ID", help="Put a starter back.")] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="For authors: check that solutions pass and starters fail.")
    ] = False,
    grades: Annotated[
        Path | None,
        typer.Option("--grades", metavar="FILE", help="Write the verdicts: X.json, or JUnit as X.xml."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", metavar="FOLDER", help="Grade this learner's copy, or its exercises/."),
    ] = None,
    isolated: Annotated[
        bool, typer.Option("--isolated", help="With --answers: run them in a bubblewrap, away from all else.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE.json", help="Write your predictions, for the book's page."),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE.json", help="Show them beside those that the page exported."),
    ] = None,
    hand_out: Annotated[
        Path | None,
        typer.Option("--hand-out", metavar="FILE.tar", help="Write a copy of the lab, solutions sealed."),
    ] = None,
    force: Force = False,
) -> None:
    """Grade your answers to the book's exercises; for instructors, grade others' and hand out copies."""
    free(hand_out, grades, export, force=force)
    if hand_out is not None:
        others = {reset, grades, answers, export, beside}
        if ids or any([hint, watch, solutions, isolated]) or others != {None}:
            raise LabError("exercises: --hand-out goes with nothing else")
        from labcode.kit import hand_out as copy

        typer.echo(copy.write(hand_out))
        return
    from labcode.grading import run

    code = run.main(
        ids or [],
        hint=hint,
        watch=watch,
        reset=reset,
        solutions=solutions,
        grades=grades,
        answers=answers,
        isolated=isolated,
        export=export,
        beside=beside,
        console=console(),
    )
    raise typer.Exit(code)


def grades(
    files: Annotated[
        list[Path], typer.Argument(help="Files of `labcode exercises --grades X.json`, or folders of them.")
    ],
    output_format: TablesAs = "table",
) -> None:
    """One table of the grades of many learners: a row each, named like the file."""
    from labcode.grading import grades as of

    of.merge(files, output_format, sys.stdout)


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
    with _needed("book"):
        from labcode.book import build

    raise typer.Exit(build.build(captures, what, strict=strict, update_claims=update_claims))


def slides(
    page: Annotated[str, typer.Argument(help="A page of the built book, such as nsys/timeline-basics.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="The file to write.")],
    force: Force = False,
) -> None:
    """Make slides of a page, one file: arrows turn them, n shows the notes, f fills the screen."""
    free(output, force=force)
    with _needed("slides"):
        from labcode.book import slides as made

    typer.echo(f"{output}: {made.write(page, output)} slides")


@contextmanager
def _needed(command: str) -> Iterator[None]:
    """What is imported meanwhile needs the book's packages; `ToolError` without them."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{command}: {error.name} is not installed; in a checkout of the lab use `nox -s book`, or "
            "pip install -c constraints.txt -e '.[book]'"
        ) from None


def new(
    kind: Annotated[str, typer.Argument(help="cuda, experiment, exercise, format, page, report or rule.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="PLACE/NAME", help="Such as nsys/my-page, power/joules_by_hour or copies/tiny-copies."
        ),
    ],
) -> None:
    """Write the skeleton of something new in a checkout, registered and green, and say what to do next.

    PLACE is a part of the book, of a report the format, of a rule its module, of an experiment (cuda: one
    whose program is in CUDA) its part; of a format it is reports.
    """
    from labcode.new import new as write

    for line in write(kind, name):
        typer.echo(line)
