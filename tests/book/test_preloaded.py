"""Programs started by the command that has PyTorch at hand are as those started by Python itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labcode.book.preloaded import client, preloaded

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("torch_at_hand")
REAL = sys.executable
PROGRAM = """
import atexit, json, os, sys, time
import torch
atexit.register(lambda: print("the end", flush=True))
given = [sys.argv, sys.path[0], sys.executable, os.environ["COLOR"], sys.stdin.read(), os.getpid()]
print(json.dumps(given), flush=True)
print("to stderr", file=sys.stderr)
if sys.argv[1] == "wait":
    time.sleep(60)
elif sys.argv[1] == "raise":
    raise ValueError("on purpose")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def start(folder: Path, word: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = os.environ | {"COLOR": "red"}
    return subprocess.Popen(
        [sys.executable, "-m", "program", word], cwd=folder, env=environment, text=True, **pipes
    )


@pytest.mark.parametrize(("word", "code", "error"), [("0", 0, ""), ("3", 3, ""), ("raise", 1, "on purpose")])
def test_a_program_gets_what_it_was_given_and_says_how_it_ended(
    program: Path, word: str, code: int, error: str
) -> None:
    with start(program, word) as process:
        out, err = process.communicate("typed in")
    first, last = out.splitlines()
    argv, folder, executable, color, typed, number = json.loads(first)
    assert (Path(argv[0]).name, argv[1:], color, typed) == ("program.py", [word], "red", "typed in")
    assert (Path(folder), executable) == (program, sys.executable)
    assert number != os.getpid()
    assert last == "the end"
    assert err.startswith("to stderr\n") and error in err
    assert process.returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_ends_with_the_process_that_was_started(program: Path, number: signal.Signals) -> None:
    with start(program, "wait") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        running = json.loads(process.stdout.readline())[-1]
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    limit = time.monotonic() + 30
    while Path(f"/proc/{running}").exists():
        assert time.monotonic() < limit, "it still runs"
        time.sleep(0.01)


def test_a_server_whose_process_is_killed_ends(tmp_path: Path) -> None:
    begin = "from labcode.book.preloaded import preloaded\nwith preloaded() as python:\n    "
    begin += "print(python, flush=True)\n    import time; time.sleep(60)"
    with subprocess.Popen([REAL, "-c", begin], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        python = process.stdout.readline().strip()
        words = [python, "-m", "this"]
        assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0
        process.kill()
    end = time.monotonic() + 30
    while subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0:
        assert time.monotonic() < end
    shutil.rmtree(Path(python).parent)


def test_python_and_the_socket_may_lie_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with a space, an umlaut and a quote, too long for a script's first line and for a socket."""
    folder = tmp_path / "ein Ordner" / "Prüf 'stand'" / ("x" * 200) / ("y" * 200)
    folder.mkdir(parents=True)
    (folder / "python3").symlink_to(REAL)
    (folder / "sockets").mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    monkeypatch.setattr("tempfile.tempdir", str(folder / "sockets"))
    (tmp_path / "asked.py").write_text("import sys\nprint(*sys.argv[1:], sys.executable, sep='\\n')\n")
    with preloaded() as command:
        for words in ([command], client(command)):
            ask = [*words, "-m", "asked", "a b", "ü"]
            done = subprocess.run(ask, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
            assert done.stdout.splitlines() == ["a b", "ü", command], done.stderr


def test_what_is_wanted_later_is_imported_while_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text("import sys\nprint('wave' in sys.modules)\n")
    (tmp_path / "begin.py").write_text(
        "import subprocess, time\nfrom labcode.book.preloaded import preloaded\n"
        "with preloaded(later=['wave']) as python:\n"
        "    while subprocess.check_output([python, '-m', 'asked']) != b'True\\n':\n"
        "        time.sleep(0.01)\n"
    )
    begun = subprocess.run([REAL, "begin.py"], cwd=tmp_path, timeout=60, check=False, capture_output=True)
    assert begun.returncode == 0, begun.stderr
