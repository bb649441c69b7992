"""One run on its way into a set: what is to be measured in, what was measured, what is left to do with it."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Seconds = dict[str, float]  # what took how long, in the order of the steps


@dataclass(frozen=True)
class Part:
    """One program of a run: which step that is, what runs it to its end, what happens around its turn."""

    step: str
    run: Callable[[], Any]
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class Job:
    """A run to measure: the recording tool and where it lies, the neutral command ``python -m …``, the tool's
    options, the folder for its files, the run's name, what messages call it, its bounds, and whether it is
    also made without the tool (``clean``).
    """

    tool: str
    argv: tuple[str, ...]
    options: tuple[str, ...]
    folder: Path
    name: str
    what: str
    time_limit_s: float
    cwd: Path
    program: Path | None = None
    clean: bool = True

    @property
    def records(self) -> list[str]:
        """The names of the records that the programs of a run leave."""
        return [f"{self.name}.json", *([f"{self.name}.clean.json"] if self.clean else [])]

    def file(self, suffix: str) -> Path:
        """A file of the run that is filed."""
        return self.folder / f"{self.name}{suffix}"

    def raw(self, suffix: str) -> Path:
        """A file of the run that is not: its folder goes before the experiment is filed."""
        work = self.folder / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        return work / f"{self.name}{suffix}"


@dataclass(frozen=True)
class Measured:
    """What measuring left: the records' names, seconds, the tool's warnings, what it printed.

    ``finished`` is whether the run can be filed as it is: nothing was recorded that has to be scrubbed.
    """

    files: list[str]
    seconds: Seconds
    warnings: list[str] = field(default_factory=list)
    said: str = ""
    finished: bool = False


@contextmanager
def timed(seconds: Seconds, step: str) -> Iterator[None]:
    """Add the seconds that pass meanwhile to those of a step."""
    began = time.monotonic()
    try:
        yield
    finally:
        seconds[step] = round(seconds.get(step, 0.0) + time.monotonic() - began, 3)


def one_by_one(
    parts: Iterable[tuple[str, Part]], show: Callable[[str], None]
) -> Generator[tuple[Any, float], None, None]:
    """Result and seconds of each part, run when it is asked for; what is said meanwhile stands beside it."""
    for text, part in parts:
        show(text)
        began = time.monotonic()
        with part.around():
            result = part.run()
        yield result, time.monotonic() - began
