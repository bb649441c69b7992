"""One rank of a run: a tool's words and a program's in; the program run by that tool, and how it ended, out.

.. code-block:: text

    torchrun … --no-python python -m labcode.profiling.rank --ends=FOLDER -- nsys profile … -- python train.py

Launchers start this once per rank. The program runs under the tool: with ``--only=R`` on rank R alone, with
``--first`` on one rank of each node. How and when it ended is written to FOLDER: the program, not the tool,
which may take seconds longer. In the tool's arguments ``%q{NAME}`` stands for an environment variable, as in
nsys and ncu; among the program's, `LOCAL_RANK` stands for the argument that ``deepspeed`` passes to scripts.
Little is imported, because every rank starts this.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from labcode.record.began import marked

LOCAL_RANK = "--local_rank=%q{LOCAL_RANK}"
MARK = "LABCODE_CHILD_OF"  # as in `labcode.tools`
_ASKING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def main(arguments: Sequence[str]) -> int:
    """Run the program to its end, by the tool if it is for this rank; the exit code, 128 + N for signal N."""
    words = list(arguments)
    options, rest = words[: (cut := words.index("--"))], words[cut + 1 :]
    cut = rest.index("--")
    cut += rest[cut + 1] == "--"  # the tool's own words end in one
    tool, program = rest[:cut], rest[cut + 1 :]
    given = dict(word.removeprefix("--").partition("=")[::2] for word in options)
    rank, local = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    program = [f"--local_rank={local}" if word == LOCAL_RANK else word for word in program]
    if given.get("only", rank) != rank or ("first" in given and local != "0"):
        tool = []
    tool = [re.sub(r"%q\{(\w+)\}", lambda m: os.environ.get(m[1], m[0]), word) for word in tool]
    return run(tool, program, Path(given["ends"]), int(rank))


def run(tool: Sequence[str], program: Sequence[str], ends: Path, rank: int) -> int:
    """Run the program, and write ``ends/rankN.json``: code, signals that came, seconds, time of the end."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)  # launchers signal the whole group: the program has it already

    for name in _ASKING:
        signal.signal(getattr(signal, name), note)
    began = time.monotonic()
    ends.mkdir(parents=True, exist_ok=True)
    begun = ends / f"rank{rank}.began"
    process = subprocess.Popen([*tool, *marked(program, begun)] if tool else program)
    seen: list[tuple[float, float]] = []
    if tool and hasattr(os, "pidfd_open"):
        threading.Thread(target=_watch, args=(program, seen), daemon=True).start()
    code = process.wait()
    code = code if code >= 0 else 128 - code
    part = ends / f"rank{rank}.part"
    at, ended = seen[0] if seen else _now()
    unseen = bool(tool and code and not asked and not begun.exists())
    end = {
        "rank": rank,
        "code": code,
        "asked": asked[:1],
        "at": at,
        "seconds": ended - began,
        "unseen": unseen,
    }
    part.write_text(json.dumps(end), encoding="utf-8")
    part.replace(ends / f"rank{rank}.json")
    return code


def _now() -> tuple[float, float]:
    """The moment on the clock that machines share, which may be set, and on this one's that is not."""
    return time.time(), time.monotonic()


def _watch(program: Sequence[str], seen: list[tuple[float, float]]) -> None:
    """Find the program among all processes, by its words and its rank, and note when it ends."""
    wanted = [word.encode() for word in program]
    ours = {f"{name}={os.environ.get(name, '')}".encode() for name in ("RANK", MARK) if name in os.environ}
    for _ in range(300):
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
                if len(words) != len(wanted) or words[1:] != wanted[1:]:
                    continue
                if not words[0].endswith(wanted[0].rpartition(b"/")[2]):
                    continue
                if ours <= set((entry / "environ").read_bytes().split(b"\0")):
                    select.select([os.pidfd_open(int(entry.name))], [], [])
                    seen.append(_now())
                    return
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
