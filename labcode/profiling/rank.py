"""One rank of a run: a tool's words and a program's in; the program run by that tool, and how it ended, out.

    torchrun … --no-python python -m labcode.profiling.rank --ends=FOLDER -- nsys profile … -- python train.py

Launchers start this once a rank. It becomes the tool (with ``--only=R`` on rank R alone, with ``--first`` on
one rank of each node), which runs it again, without a tool, around the program: what is written to FOLDER is
how the program ended, not the tool, which may take seconds longer. ``%q{NAME}`` in the tool's words stands
for a variable of the environment, as nsys and ncu have it; among the program's words `LOCAL_RANK` stands for
the argument that ``deepspeed`` gives to scripts. Little is imported, for this is started with every rank.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

LOCAL_RANK = "--local_rank=%q{LOCAL_RANK}"
_ASKING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def main(arguments: Sequence[str]) -> int:
    """Become the tool, or run the program to its end; the program's exit code, 128 + N for signal N."""
    words = list(arguments)
    options, rest = words[: (cut := words.index("--"))], words[cut + 1 :]
    tool, program = rest[: (cut := rest.index("--"))], rest[cut + 1 :]
    given = dict(word.removeprefix("--").partition("=")[::2] for word in options)
    rank, local = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    program = [f"--local_rank={local}" if word == LOCAL_RANK else word for word in program]
    if tool and given.get("only", rank) == rank and ("first" not in given or local == "0"):
        again = [sys.executable, "-m", "labcode.profiling.rank", f"--ends={given['ends']}", "--", "--"]
        expanded = [re.sub(r"%q\{(\w+)\}", lambda m: os.environ.get(m[1], m[0]), word) for word in tool]
        os.execvp(expanded[0], [*expanded, *again, *program])
    return run(program, Path(given["ends"]), int(rank))


def run(program: Sequence[str], ends: Path, rank: int) -> int:
    """Run the program, and write ``ends/rankN.json``: code, signals that came, seconds, time of the end."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)  # launchers signal the whole group: the program has it already

    for name in _ASKING:
        signal.signal(getattr(signal, name), note)
    began = time.monotonic()
    process = subprocess.Popen(list(program))
    code = process.wait()
    code = code if code >= 0 else 128 - code
    ends.mkdir(parents=True, exist_ok=True)
    part = ends / f"rank{rank}.part"
    end = {
        "rank": rank,
        "code": code,
        "asked": asked[:1],
        "at": time.time(),
        "seconds": time.monotonic() - began,
    }
    part.write_text(json.dumps(end), encoding="utf-8")
    part.replace(ends / f"rank{rank}.json")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
