"""The command line in this process: words in, exit code and what was printed out.

Says the same as ``python -m labcode`` and spares the start of a process, half a second with pandas. What is
about the process itself (its start, signals, closed pipes) is tested in processes, in tests/test_cli.py.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from labcode.cli import main
from labcode.verbs.stats import print_all


def labcode(
    *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``labcode`` with these words, in a folder, with more in the environment."""
    argv = ["labcode", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: object = 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, env or {}),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    printed = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(argv, code if isinstance(code, int) else int(bool(code)), *printed)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """The single line on stderr of a command that refused, checked to be one line without a traceback."""
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("labcode: ")
    return lines[0]


def printed(path: Path, *names: str, fmt: str = "csv") -> str:
    """What `labcode stats` prints of these reports."""
    stream = io.StringIO()
    print_all([path], names, fmt, stream)
    return stream.getvalue()
