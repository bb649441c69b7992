"""What groups of commands share: help as plain text, by -h and --help; what keeps private things in."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

ASKED = "_LABCODE_COMPLETE"  # in the environment, when a shell asks what fits
PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


def _size(text: str) -> int:
    from labcode.units import parse_size  # which few commands need

    return parse_size(text, "--part-size")


Also = Annotated[
    list[str] | None,
    typer.Option("--also", metavar="NAME", help="A name that must not be published: a host's, a person's."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there already.")]
Review = Annotated[
    bool, typer.Option("--review", help="List what cannot be told from harmless text, for you to judge.")
]
PartSize = Annotated[
    int | None,
    typer.Option(
        "--part-size",
        parser=_size,
        metavar="SIZE",
        help="Write NAME-1.tar, NAME-2.tar … of at most that size.",
    ),
]


def formats(*words: str, told: str = "") -> Any:
    """The option that chooses among formats, which shells complete; ``told`` is its help, or their list."""
    told = told or f"{', '.join(words[:-1])} or {words[-1]}."
    return typer.Option("--format", "-f", help=told, autocompletion=lambda: list(words))


TablesAs = Annotated[str, formats("table", "csv", "json", "md")]
VerdictsAs = Annotated[str, formats("table", "json", "md")]


def judge(doubts: Iterable[str]) -> None:
    """Print what only people can judge."""
    for line in doubts:
        typer.echo(f"for you to judge: {line}")
