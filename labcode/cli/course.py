"""Commands of instructors: a course begun, its cohort's results shown."""

from pathlib import Path
from typing import Annotated

import typer

from labcode.cli.plain import PLAIN

course_app = typer.Typer(
    help="A course around the book: begin one, show a cohort's results.", no_args_is_help=True, **PLAIN
)


@course_app.command("new")
def course_new(
    name: Annotated[str, typer.Argument(help="The course's name, and that of its folder.")],
    folder: Annotated[Path, typer.Option("--in", help="Where the folder is made.")] = Path(),
    plan: Annotated[
        str, typer.Option("--plan", help="How long it is: hours (two), day, week or term.")
    ] = "week",
) -> None:
    """Write a course's folder: syllabus, copies to hand out, the script that grades, what to do in order."""
    from labcode.kit import course

    for line in course.new(name, folder, plan):
        typer.echo(line)


@course_app.command("results")
def course_results(
    files: Annotated[
        list[Path], typer.Argument(help="Signed files of `labcode exercises --grades`, or folders of them.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write: X.html.")] = Path(
        "results.html"
    ),
    title: Annotated[str, typer.Option("--title", help="The page's title.")] = "Results",
) -> None:
    """Write a page of a cohort's results; grades that the key did not sign are refused."""
    from labcode.kit import course

    typer.echo(course.results(files, output, title))
