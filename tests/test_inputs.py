"""What cannot be read to its end, or would steer the terminal, is refused or shown in one line."""

import contextlib
import io
import os
import pty
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from labcode import reports
from labcode.errors import InputError
from labcode.inputs import plain_file
from labcode.show import terminal
from tests.support import exports as e
from tests.support import traces
from tests.support.command import labcode, one_line

COMMANDS = {
    "stats-nsys": ("stats", "x.sqlite"),
    "stats-rep": ("stats", "x.nsys-rep"),
    "stats-xz": ("stats", "x.sqlite.xz"),
    "stats-trace": ("stats", "x.trace.json"),
    "stats-gz": ("stats", "x.trace.json.gz"),
    "stats-memory": ("stats", "x.memory.json"),
    "stats-ncu": ("stats", "x.ncu-rep"),
    "diagnose": ("diagnose", "x.sqlite"),
    "diagnose-trace": ("diagnose", "x.trace.json"),
    "diagnose-ncu": ("diagnose", "x.ncu-rep"),
    "compare": ("compare", "x.sqlite", "x.sqlite"),
    "timeline": ("timeline", "x.sqlite", "-o", "out.svg"),
    "timeline-trace": ("timeline", "x.trace.json", "-o", "out.svg"),
    "timeline-memory": ("timeline", "x.memory.json", "-o", "out.svg"),
    "flame": ("flame", "x.sqlite", "-o", "out.svg"),
    "roofline": ("roofline", "x.ncu-rep", "-o", "out.svg"),
    "export": ("export", "x.sqlite", "-o", "out"),
    "export-sqlite": ("export", "x.sqlite", "-f", "sqlite", "-o", "out"),
    "scrub": ("scrub", "x.sqlite"),
    "scrub-xz": ("scrub", "x.sqlite.xz"),
    "scrub-rep": ("scrub", "x.nsys-rep"),
    "scrub-trace": ("scrub", "x.trace.json"),
    "scrub-ncu": ("scrub", "x.ncu-rep"),
    "add": ("captures", "add", "x.tar"),
}


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Half a GiB more of memory than now; who reads without end fails soon."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(params=COMMANDS)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return COMMANDS[request.param]


def test_a_pipe_is_not_waited_for(words: tuple[str, ...], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / words[1 + (words[0] == "captures")])
    said = one_line(labcode(*words, cwd=tmp_path))
    assert ": a pipe, not a file; write what comes through it to a file and name that" in said
    assert len(list(tmp_path.iterdir())) == 1


def test_an_endless_device_behind_a_link_is_not_read(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / words[1 + (words[0] == "captures")]).symlink_to("/dev/zero")
    with little_memory():
        assert ": a device, not a file; name a file" in one_line(labcode(*words, cwd=tmp_path))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("words", [("report", "a.sqlite"), ("stats", "a.sqlite", "-o", "t")])
def test_links_in_a_circle_are_not_followed(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").symlink_to("a.sqlite")
    assert "a.sqlite: Too many levels of symbolic links" in one_line(labcode(*words, cwd=tmp_path))


HEADS = {".ncu-rep": b"NVR\0", ".sqlite": b"SQLite format 3\0"}


def test_a_sparse_file_of_60_gb_is_not_read_into_memory(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / words[1 + (words[0] == "captures")]
    file.write_bytes(HEADS.get(file.suffix, b""))
    os.truncate(file, 60 * 10**9)
    with little_memory():
        said = one_line(labcode(*words, cwd=tmp_path))
    assert file.name in said
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_plain_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file; check the path"):
        plain_file(tmp_path / "none")
    with pytest.raises(InputError, match="a folder, not a file"):
        plain_file(tmp_path)
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(tmp_path):
        one.bind("s")
        with pytest.raises(InputError, match="s: a socket, not a file"):
            plain_file(Path("s"))
    (tmp_path / "big").write_bytes(b"12345")
    with pytest.raises(InputError, match="and such a file can have"):
        plain_file(tmp_path / "big", most_bytes=4)
    assert plain_file(tmp_path / "big", most_bytes=5) == tmp_path / "big"


def test_a_table_of_ceilings_and_rules_are_plain_files(tmp_path: Path) -> None:
    from labcode.analysis.kernel.roofline import measured_ceilings
    from labcode.analysis.rules.registry import load_rules

    os.mkfifo(tmp_path / "pipe.py")
    for read in (measured_ceilings, load_rules):
        with pytest.raises(InputError, match=r"pipe\.py: a pipe, not a file"):
            read(tmp_path / "pipe.py")


def test_a_warning_and_an_error_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "cut.trace.json"
    file.write_text('{"schemaVersion": 1, "traceEvents": [')
    said = one_line(labcode("stats", file))
    assert "no report has data" in said and "cut off" in said


# ---- on a terminal

ESCAPES = "\x1b]0;owned\x07 \x1b[31m \x9b2J \u202e \x08 \r"


def on_a_terminal(*words: object) -> str:
    """What a command prints to a terminal, stderr included."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "labcode", *map(str, words)], stdin=side, stdout=side, stderr=side
    )
    os.close(side)
    data = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while part := os.read(main, 1 << 16):
            data += part
    os.close(main)
    process.wait(timeout=600)
    return data.decode().replace("\r\n", "\n")


def controls(text: str) -> set[str]:
    return {char for char in text if not char.isprintable() and char not in "\t\n "}


def test_names_of_a_capture_do_not_steer_the_terminal(tmp_path: Path) -> None:
    file = e.make_export(tmp_path / f"a{ESCAPES}.sqlite", nvtx=[e.push_pop(0, 100, f"step {ESCAPES}")])
    printed = on_a_terminal("stats", file, "-r", "nvtx_sum", "-f", "csv")
    assert "step ␛]0;owned␇ ␛[31m \\u009b2J \\u202e ␈ ␍" in printed and controls(printed) == set()
    printed = on_a_terminal("stats", file, "-r", "none")
    assert controls(printed) == set()
    printed = on_a_terminal("diagnose", tmp_path / "none\x1b[31m.sqlite")
    assert "none␛[31m.sqlite: no such file" in printed and controls(printed) == set()


def test_into_a_pipe_names_go_as_they_are(tmp_path: Path) -> None:
    file = e.make_export(tmp_path / "a.sqlite", nvtx=[e.push_pop(0, 100, "step \x1b[31m")])
    assert "step \x1b[31m" in labcode("stats", file, "-r", "nvtx_sum", "-f", "csv").stdout


@pytest.mark.parametrize(
    "words",
    [
        *(("stats", "a", "--all"), ("stats", "a", "--all", "-f", "md"), ("stats", "a", "b", "-f", "md")),
        *(
            ("diagnose", "a"),
            ("diagnose", "a", "-f", "md"),
            ("compare", "a", "b"),
            ("compare", "a", "b", "-f", "md"),
        ),
        *(("report", "a"), ("compare", "a", "b", "a2"), ("compare", "a", "b", "a2", "-f", "md")),
        ("compare", "a", "b", "--fail-above", "1", "--gate", "kernel:*"),
    ],
    ids=" ".join,
)
def test_what_people_read_is_safe_in_a_pipe_too(tmp_path: Path, words: tuple[str, ...]) -> None:
    hostile = f"<script>[x](javascript:alert(1)) @mallory {ESCAPES}"
    names = {0: hostile, 1: f"{hostile} 1"}
    for name, long in (("a", 5), ("b", 9), ("a2", 5)):
        e.make_export(
            tmp_path / f"{name} {ESCAPES}.sqlite",
            kernels=[
                e.kernel(at, at + long, correlation=at, name=names[at % 20 // 10])
                for at in range(100, 900, 10)
            ],
            api=[e.call(at - 5, at - 3, correlation=at) for at in range(100, 900, 10)],
            nvtx=[e.push_pop(at, at + 90, hostile) for at in range(100, 900, 100)],
        )
    files = {name: tmp_path / f"{name} {ESCAPES}.sqlite" for name in ("a", "b", "a2")}
    ran = labcode(*(files.get(word, word) for word in words))
    assert ran.returncode in (0, 1), ran.stderr
    assert controls(ran.stdout) == controls(ran.stderr) == set()
    if "md" in words or "report" in words:
        parsed = MarkdownIt("commonmark").enable("table").parse(ran.stdout)
        inner = [one for token in parsed for one in token.children or []]
        assert not [one for one in inner if one.type in ("image", "html_inline")]
        assert not [one for one in inner if ":" in str(one.attrs.get("href", ""))]  # pages of the book alone
        assert not [one for one in parsed if one.type == "html_block" and "script" in one.content]
        assert not [one for one in inner if one.type == "text" and "@" in one.content]


def test_rich_colors_its_tables_and_shows_what_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", stream)
    with terminal.guarded():
        assert sys.stdout is not stream and terminal.raw(sys.stdout) is stream
        terminal.console().print(f"[bold]a{ESCAPES}[/bold]", highlight=False)
        print(ESCAPES)
    assert sys.stdout is stream
    colored, line, _ = stream.getvalue().split("\n")
    assert colored.startswith("\x1b[1ma␛]0;owned") and "\x1b[31m" not in colored
    assert controls(line) == set()


def test_a_trace_whose_file_is_a_rank_of_a_folder_is_read(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=2, layers=2, packed=False)
    os.mkfifo(tmp_path / "other.trace.json")
    assert labcode("stats", tmp_path, "-r", "steps").returncode == 0


@pytest.mark.parametrize(
    "name",
    ("a.sqlite", "a.sqlite.xz", "a.nsys-rep", "a.ncu-rep", "a.ncu-rep.xz", "a.trace.json", "a.trace.json.gz")
    + ("a.memory.json.xz", "a.power.json", "a.power.json.xz"),
)
def test_a_pointer_of_git_lfs_is_told_as_such(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n")
    with pytest.raises(InputError, match=r"a pointer of Git LFS, not the file itself; fetch it with `git"):
        reports.open(path)
