"""Whether a tool started its program: the program's words in; the same, which leave a mark first, out."""

from collections.abc import Sequence
from pathlib import Path

_SHELL = ("/bin/sh", "-c", ': > "$0" || exit 125; exec "$@"')


def marked(program: Sequence[str], file: Path) -> tuple[str, ...]:
    """A program that makes ``file`` as it begins: a tool that failed without it did not start it."""
    return (*_SHELL, str(file), *program)


def plain(words: Sequence[str]) -> Sequence[str]:
    """A program's own words, marked or not."""
    return words[len(_SHELL) + 1 :] if tuple(words[: len(_SHELL)]) == _SHELL else words
