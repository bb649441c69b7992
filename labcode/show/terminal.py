"""What is printed in; its text out, and no character that would steer a terminal.

Names come from captures, and whoever made them could put escape sequences there. Tables and reports are safe
wherever they go; CSV and JSON, which are for programs, only where they reach a terminal.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from labcode.show import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDEST = 1_000  # columns of a terminal that tables are drawn for, whatever it says it has


class _Plain:
    """A stream to a terminal that `visible` text goes to; ``raw`` is the stream itself."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.raw.writelines(map(visible, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def guarded() -> Iterator[None]:
    """What is printed meanwhile to stderr, and to stdout where that is a terminal, is `visible` text, what it
    cannot show “?”; files and pipes get UTF-8, whatever the locale. Streams that came closed lead nowhere."""
    _open_closed()
    with ExitStack() as restored:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if isinstance(stream, io.TextIOWrapper):
                restored.callback(stream.reconfigure, encoding=stream.encoding, errors=stream.errors)
                stream.reconfigure(encoding=stream.encoding if stream.isatty() else "utf-8", errors="replace")
            if stream is not None and (name == "stderr" or stream.isatty()):
                setattr(sys, name, _Plain(stream))
                restored.callback(setattr, sys, name, stream)
        yield


def _open_closed() -> None:
    """Where ``>&-`` closed a stream, else the next file that is opened would get its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                nowhere = os.open(os.devnull, os.O_RDWR)
                if nowhere != number:
                    os.dup2(nowhere, number)
                    os.close(nowhere)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def raw(stream: TextIO) -> TextIO:
    """The stream behind a guarded one, for programs that color what they print."""
    return stream.raw if isinstance(stream, _Plain) else stream


def console(*, stderr: bool = False) -> Console:
    """Rich's console on stdout or stderr: its own colors, and `visible` text."""
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
    from rich.segment import Segment

    class Shown:
        def __init__(self, content: ConsoleRenderable) -> None:
            self.content = content

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in console.render(self.content, options):
                yield part if part.control else Segment(visible(part.text), part.style)

    class Hook(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Shown(one) for one in renderables]

    made = Console(file=raw(sys.stderr if stderr else sys.stdout))
    made.width = min(made.width, _WIDEST)
    made.push_render_hook(Hook())
    return made


def escape(text: str) -> str:
    """A text for the markup of a console, where brackets style."""
    from rich.markup import escape

    return escape(text)


def pairs() -> Table:
    """Rich's table of names and what is said of them, without a head."""
    from rich.table import Table

    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column("", style="dim", no_wrap=True)
    made.add_column("", overflow="fold")
    return made


def beside(left: str, right: str) -> Table:
    """Rich's table of two long texts side by side."""
    from rich.table import Table

    return Table(left, right, show_lines=False, expand=True)


def table(*left: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """Rich's table for a console, its columns named, those of ``right`` with numbers."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in left:
        made.add_column(name, overflow="fold")
    for name in right:
        made.add_column(name, justify="right")
    return made
