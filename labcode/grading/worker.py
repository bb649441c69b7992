"""The process that runs a learner's file: a file and packed calls in, one line of JSON per event out.

.. code-block:: text

    python -m labcode.grading.worker FILE EVENTS < JOB

``JOB`` is a pickled `Job`: the rules, and functions' names with their arguments, packed by
`labcode.grading.codec`. ``EVENTS`` is a pipe, which gets ``{"event": "loading"}``, then
``loaded`` or ``load error`` with lines, then for each call ``begin`` and ``end`` (with ``value`` or
``lines``, and what it ``printed``, if anything). An argument that the grader keeps on its side
(`labcode.grading.remote`) asks through the same pipe, and reads what comes back on standard input. The
learner's code knows the inputs of its calls and nothing of the right answers.
"""

import _multiprocessing  # type: ignore[import-not-found]  # noqa: F401 - as subprocess
import json
import os
import pickle
import subprocess  # noqa: F401 - before the guard, which takes a part of it away
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from labcode.grading import guard

_FRAMES_SHOWN = 4
_PIECES_KEPT = 400  # of what a call prints


class UnreadableError(Exception):
    """There is no program in the file."""


@dataclass(frozen=True)
class Job:
    """The calls to make: a function's name and its packed arguments each; and the rules meanwhile."""

    calls: Sequence[tuple[str, bytes]]
    rules: guard.Rules = field(default_factory=guard.Rules)
    processes: int = 0


def main(argv: list[str]) -> int:
    """Load the file, make the calls, write the events."""
    file, pipe, asked = Path(argv[0]), argv[1], sys.stdin.buffer
    sys.argv = [str(file)]
    from labcode.grading import codec, remote, sql  # noqa: F401 - pandas is loaded before any clock starts

    job: Job = pickle.load(asked)
    with open(pipe, "w", encoding="utf-8") as out:

        def tell(**event: Any) -> None:
            out.write(json.dumps(event) + "\n")
            out.flush()

        sys.stdin = open(os.devnull)  # noqa: SIM115 - input() in a learner's file ends at once instead of waiting
        remote.connect(tell, asked)
        guard.limit(processes=job.processes)
        guard.put_up(job.rules)
        tell(event="loading")
        try:
            namespace = load(file)
        except BaseException as error:
            tell(event="load error", lines=describe(error, file))
            return 0
        tell(event="loaded")
        kept = _listen()
        for number, (name, packed) in enumerate(job.calls):
            arguments = codec.unpack(packed)
            function = namespace.get(name)
            tell(event="begin", call=number)
            if not callable(function):
                lines = [f"the file has no function {name!r}: keep the starter's names"]
                tell(event="end", call=number, lines=lines)
                continue
            kept.clear()
            found = _call(function, arguments, file)
            tell(event="end", call=number, **found, **({"printed": "".join(kept)} if kept else {}))
    return 0


def load(file: Path) -> dict[str, Any]:
    """Run a file as a module named ``exercise``, so that its ``__main__`` part rests; give back its names.

    Of an SQL file, the one name is ``answer``, a function that runs the query.
    """
    if file.suffix == ".sql":
        from labcode.grading import sql

        return {"answer": sql.learners(file.read_text(encoding="utf-8"))}
    source = file.read_bytes()
    if b"\0" in source:
        raise UnreadableError(f"{file.name} is no UTF-8 text: save it as UTF-8")
    if not source.strip():
        raise UnreadableError(f"{file.name} is empty; --reset brings the starter back")
    sys.path.insert(0, str(file.parent))
    namespace: dict[str, Any] = {"__name__": "exercise", "__file__": str(file), "__builtins__": __builtins__}
    module = type(sys)("exercise")
    module.__dict__.update(namespace)
    sys.modules["exercise"] = module  # dataclasses look their module up
    exec(compile(source, str(file), "exec"), module.__dict__)
    return module.__dict__


def describe(error: BaseException, file: Path) -> list[str]:
    """What went wrong, as lines about the learner's own file only."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines = [f"{file.name}, line {error.lineno}: {type(error).__name__}: {error.msg}"]
        if error.text:
            lines.append("    " + error.text.strip())
        return lines
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        advice = (
            ""
            if package == "labcode"
            else f": install it (`python -m pip install {package}`) or do without it"
        )
        return [
            *_frames(error, file),
            f"the file imports {error.name!r}, which is not installed here{advice}",
        ]
    if isinstance(error, NotImplementedError):
        return [*_frames(error, file), f"not written yet: {error}" if str(error) else "not written yet"]
    if type(error).__name__ in ("QueryError", "UnreadableError"):
        return [str(error)]
    if isinstance(error, MemoryError):
        return [*_frames(error, file), f"MemoryError: an answer may take {guard.MEMORY_BYTES >> 30} GiB"]
    if isinstance(error, EOFError):
        return [*_frames(error, file), "nobody types anything here: a function gets all that it needs"]
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return [*_frames(error, file), *text[-3:]]


def touches(error: BaseException, file: Path) -> bool:
    """Whether an error came up in the learner's file, or in something it called."""
    return any(frame.filename == str(file) for frame in traceback.extract_tb(error.__traceback__))


def _listen() -> deque[str]:
    """The last pieces that are printed from now on, which are printed all the same."""
    kept = deque[str](maxlen=_PIECES_KEPT)

    def told(write: Callable[[str], int], text: str) -> int:
        kept.append(text[-_PIECES_KEPT:])
        return write(text)

    for stream in (sys.stdout, sys.stderr):
        stream.write = partial(told, stream.write)  # type: ignore[method-assign]
    return kept


def _call(function: Callable[..., Any], arguments: list[Any], file: Path) -> dict[str, Any]:
    from labcode.grading import codec

    try:
        return {"value": codec.encode(function(*arguments))}
    except BaseException as error:
        return {"lines": describe(error, file)}


def _frames(error: BaseException, file: Path) -> list[str]:
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(file):
            lines.append(f"{file.name}, line {frame.lineno}, in {frame.name}:  {(frame.line or '').strip()}")
    if len(lines) > _FRAMES_SHOWN:
        left_out = len(lines) - _FRAMES_SHOWN
        lines = [*lines[:1], f"… {left_out} more calls …", *lines[-_FRAMES_SHOWN + 1 :]]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
