"""What groups of commands share: help as plain text, by -h and --help; what keeps private things in."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from labcode.errors import LabError

PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

Also = Annotated[
    list[str] | None,
    typer.Option("--also", metavar="NAME", help="A name that must not be published: a host's, a person's."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there already.")]
Review = Annotated[
    bool, typer.Option("--review", help="List what cannot be told from harmless text, for you to judge.")
]


def _bytes(text: str) -> int:
    """A size such as ``15MiB`` or ``20 MB`` in bytes; `LabError` for another text, and for less than a MB."""
    found = re.fullmatch(r"(\d{1,6}) ?(GB|GiB|MB|MiB)", text)
    scale = {"GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20}
    if not found or not int(found[1]):
        raise LabError(f"--part-size {text}: not a size; say for instance 15MiB or 20MB")
    return int(found[1]) * scale[found[2]]


PartSize = Annotated[
    int | None,
    typer.Option(
        "--part-size",
        parser=_bytes,
        metavar="SIZE",
        help="Write NAME-1.tar, NAME-2.tar … of at most that size.",
    ),
]


def judge(doubts: Iterable[str]) -> None:
    """Print what only people can judge."""
    for line in doubts:
        typer.echo(f"for you to judge: {line}")
