"""The command line itself: help, exit codes, one line an error, nothing heavy imported at the start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import labcode, one_line

COMMANDS = [
    *(
        "doctor",
        "capture",
        "kit",
        "captures",
        "captures list",
        "captures verify",
        "captures plan",
        "captures add",
        "captures pack",
        "captures merge",
        "captures prune",
        "captures export",
        "captures thin",
        "captures compare",
        "captures restamp",
    ),
    "completion",
    *("stats", "export", "diagnose", "compare", "timeline", "flame", "roofline"),
    *("course", "course new", "course results"),
    *("scrub", "exercises", "grades", "book", "slides", "new", "energy", "profile", "report", "record"),
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(command: str) -> None:
    result = labcode(*command.split(), "--help")
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


def test_help_tells_the_exit_codes() -> None:
    assert "which is 141 where" in " ".join(labcode("--help").stdout.split())


def test_every_command_is_listed_here() -> None:
    from labcode.cli import program
    from labcode.cli.captures import captures_app
    from labcode.cli.course import course_app

    names = {c.callback.__name__ for c in program().registered_commands if c.callback}
    names |= {"captures"} | {f"captures {c.name}" for c in captures_app.registered_commands}
    names |= {"course"} | {f"course {c.name}" for c in course_app.registered_commands}
    assert names == set(COMMANDS)


def test_a_command_that_is_named_is_imported_alone() -> None:
    code = "import sys; from labcode.cli import program; program('stats')\n"
    code += "print(*sorted(name for name in sys.modules if name.startswith('labcode.cli.')))"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["labcode.cli.main", "labcode.cli.plain", "labcode.cli.read"]


def test_starting_imports_nothing_heavy() -> None:
    heavy = ("pandas", "torch", "matplotlib", "numpy", "labcode.store", "sqlite3", "tempfile")
    code = f"import sys, labcode.cli; labcode.cli.program(); print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert result.stdout.strip() == "[]"


def test_reports_of_nsys_need_no_tables_of_pandas() -> None:
    """They are timed beside nsys' own, and half a second is what importing pandas takes."""
    modules = ("launches", "nvtx", "ranges_on_gpu", "reports", "tables", "traces")
    code = "".join(f"import labcode.analysis.stats.nsys.{name}\n" for name in modules)
    code += "import sys; print([m for m in ('pandas', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert result.stdout.strip() == "[]"


def test_starting_is_quick() -> None:
    best = min(_seconds("--version") for _ in range(5))
    assert best < 0.5


def _seconds(*args: str) -> float:
    """Of the CPU, however busy the machine is."""
    begin = os.times()
    subprocess.run([sys.executable, "-m", "labcode", *args], capture_output=True, timeout=600, check=True)
    end = os.times()
    return end.children_user + end.children_system - begin.children_user - begin.children_system


LOST = """
import signal
class Lost:
    def __del__(self): signal.raise_signal(signal.SIGINT)  # an exception goes nowhere from here
Lost()
"""


@pytest.mark.parametrize("program", ["labcode", "labcode.unified_profiler"])
@pytest.mark.parametrize("how", ["import signal\nsignal.raise_signal(signal.SIGINT)\n", LOST])
def test_ctrl_c_while_it_starts_is_one_line(tmp_path: Path, program: str, how: str) -> None:
    (tmp_path / "typer.py").write_text(how)
    result = subprocess.run(
        [sys.executable, "-m", program, "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (130, "labcode: interrupted before it began\n")


def test_ctrl_c_in_a_command_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    words = [sys.executable, "-m", "labcode", "diagnose", "--list", "--rules", str(tmp_path / "rules.py")]
    result = subprocess.run(words, capture_output=True, text=True)
    said = "labcode: interrupted; nothing was left half-written\n"
    assert (result.returncode, result.stderr) == (130, said)


def test_bytecode_that_is_cut_off_is_named_in_one_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "labcode", "stats", "--list"]
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(words, env=env, capture_output=True, check=True)
    for module in ("labcode/cli/read", "labcode/verbs/stats"):  # before a command runs, and while it does
        (file,) = (path for path in tmp_path.rglob("*.pyc") if f"{module}." in str(path))
        whole = file.read_bytes()
        file.write_bytes(whole[:200])
        said = one_line(subprocess.run(words, env=env, capture_output=True, text=True))
        assert said.startswith(f"labcode: {file}: damaged bytecode of Python (")
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["captures", "bogus"], "No such command 'bogus'"),
        (["capture", "--bogus"], "--bogus"),
        (["capture"], "--set"),
        (["stats"], "--list"),
        (["stats", "absent.sqlite"], "absent.sqlite"),
        (["diagnose"], "--list"),
        (["diagnose", "absent.sqlite"], "absent.sqlite"),
        (["diagnose", "x.sqlite", "--rule", "idle-gap"], "idle-gaps"),
        (["compare", "absent.sqlite", "other.sqlite"], "absent.sqlite"),
        (["timeline", "absent.sqlite", "-o", "x.svg"], "absent.sqlite"),
        (["timeline", "absent.sqlite", "-o", "x.bmp"], ".svg"),
        (["compare", "a", "b", "--gate", "total"], "--fail-above"),
        (["compare", "a", "b", "--fail-above", "5", "--gate", "steps"], "KIND:NAME"),
        (["compare", "a", "b", "--undecided-exit", "300"], "from 1 to 255"),
        (["compare", "a", "b", "c", "--undecided-exit", "0"], "from 1 to 255"),
        (["compare", "a", "b", "--only", "ranks"], "totals, kernels, ranges, transfers"),
        (["stats", "a.sqlite", "--all", "-r", "nvtx_sum"], "leave out --report or --all"),
        (["stats", "absent.sqlite", "other.sqlite", "-o", "t"], "absent.sqlite"),
        (["export", "absent.sqlite", "-o", "t"], "absent.sqlite"),
        (["export", "absent.sqlite"], "--output"),
        (["diagnose", "x.sqlite", "--rules", "absent.py"], "absent.py"),
        (["captures", "compare", "h200", "no-such-set"], "no-such-set"),
        (["scrub", "absent.sqlite"], "absent.sqlite"),
        (["captures", "add", "absent.tar"], "absent.tar"),
        (["captures", "verify", "no-such-set"], "no-such-set"),
        (["book", "--captures", "no-such-set"], "no-such-set"),
        (["exercises", "no-such-exercise"], "no-such-exercise"),
    ],
)
def test_bad_use_is_one_line(args: list[str], words: str, tmp_path: Path) -> None:
    assert words in one_line(labcode(*args, cwd=tmp_path))


@pytest.mark.parametrize("words", [["stats", "absent.sqlite"], ["captures", "list"]])
def test_a_process_says_what_the_command_says_in_this_one(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labcode", *words], capture_output=True, text=True, timeout=600
    )
    here = labcode(*words)
    assert (done.returncode, done.stdout, done.stderr) == (here.returncode, here.stdout, here.stderr)


def test_no_command_prints_help_and_fails() -> None:
    result = labcode()
    assert result.returncode == 2
    assert "Usage:" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "labcode", "captures", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=600,
        )  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert "No space left" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_no_error_and_no_answer(unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        result = subprocess.run(
            [sys.executable, "-m", "labcode", "--help"],
            stdout=closed, stderr=subprocess.PIPE, text=True, timeout=600,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_files_and_pipes_get_utf_8_in_every_locale(encoding: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "labcode", "stats", "µs\udcff.sqlite"],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, timeout=600,
    )  # fmt: skip
    assert result.stderr.decode() == "labcode: µs\\udcff.sqlite: no such file; check the path\n"


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str) -> None:
    command = f'"{sys.executable}" -m labcode captures list {closed}'
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
