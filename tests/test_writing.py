"""Every command that writes: never over what it reads, and whole or not at all, whatever ends it."""

import contextlib
import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from labcode.capture import archive
from labcode.capture.scrub import compress
from tests.support import exports as e
from tests.support import histories, ncu, stacks, traces
from tests.support.command import labcode, one_line
from tests.support.sets import make_set


@dataclass(frozen=True)
class Writing:
    """A command: its words before the output, the file that it reads, the name and place of its output."""

    words: tuple[object, ...]
    reads: Path
    output: str
    folder: str = ""  # the command is told a folder and makes the file in it

    def told(self, place: Path) -> tuple[object, ...]:
        return *self.words, "--force", "-o", place / (self.folder or self.output)

    def made(self, place: Path) -> Path:
        return place / self.folder / self.output


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recording of each kind."""
    folder = tmp_path_factory.mktemp("inputs")
    made = e.make_export(
        folder / "a.sqlite",
        kernels=[e.kernel(at, at + 5, correlation=at) for at in range(100, 900, 10)],
        api=[e.call(at - 5, at - 3, correlation=at) for at in range(100, 900, 10)],
        nvtx=[e.push_pop(0, 1000, "lab:measured")],
        extra_sql=stacks.python_stacks([(10, [("f", "labcode/a.py", 1)]), (20, [("g", "labcode/a.py", 2)])]),
    )
    compress(made, folder / "a.sqlite.xz")
    shutil.copy(traces.training(folder, steps=2, layers=2, packed=False)[0], folder / "t.trace.json")
    histories.write(folder, histories.leaking(), "m.memory.json.xz")
    histories.write(folder, histories.leaking(), "m.memory.json")
    shutil.copy(ncu.path("basic.ncu-rep"), folder / "n.ncu-rep")
    shutil.copy(ncu.path("full.ncu-rep"), folder / "roofs.ncu-rep")
    return folder


@pytest.fixture(autouse=True)
def own_cache(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(inputs / "cache"))


NSYS, TRACE, MEMORY = "a.sqlite", "t.trace.json", "m.memory.json"
NCU, ROOFS = "n.ncu-rep", "roofs.ncu-rep"
WRITINGS = {
    "timeline-svg": (("timeline", NSYS), "x.svg"),
    "timeline-json": (("timeline", NSYS), "x.json"),
    "timeline-gz": (("timeline", TRACE), "x.json.gz"),
    "timeline-trace": (("timeline", TRACE), "x.trace.json"),
    "timeline-memory": (("timeline", MEMORY), "x.svg"),
    "flame": (("flame", NSYS), "x.txt"),
    "roofline": (("roofline", ROOFS), "x.svg"),
    "scrub-nsys": (("scrub", NSYS), "x.sqlite"),
    "scrub-packed": (("scrub", "a.sqlite.xz"), "x.sqlite.xz"),
    "scrub-trace": (("scrub", TRACE), "x.trace.json"),
    "scrub-memory": (("scrub", "m.memory.json.xz"), "x.memory.json.xz"),
    "scrub-ncu": (("scrub", NCU), "x.ncu-rep"),
    "stats-nsys": (("stats", NSYS, "-r", "cuda_gpu_trace", "-f", "csv"), "a_cuda_gpu_trace.csv"),
    "stats-trace": (("stats", TRACE, "-r", "op_sum", "-f", "csv"), "t_op_sum.csv"),
    "stats-memory": (("stats", MEMORY, "-r", "sites", "-f", "csv"), "m_sites.csv"),
    "stats-ncu": (("stats", NCU, "-r", "raw", "-f", "csv"), "n_raw.csv"),
    "export-csv": (("export", NSYS, "-f", "csv", "--table", "api"), "a_api.csv"),
    "export-parquet": (
        ("export", NSYS, "-f", "parquet", "--table", "api"),
        "a_api.parquet",
    ),
    "export-sqlite": (("export", NSYS, "-f", "sqlite"), "a.sqlite"),
}


@pytest.fixture(params=WRITINGS)
def writing(request: pytest.FixtureRequest, inputs: Path) -> Writing:
    (verb, file, *rest), output = WRITINGS[request.param]
    if output.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    folder = "tables" if verb in ("stats", "export") else ""
    return Writing((verb, inputs / file, *rest), inputs / file, output, folder)


@contextlib.contextmanager
def little_space(size: int) -> Iterator[None]:
    """Files can have so many bytes and no more: writing on fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_on_a_full_disk_the_older_file_stays_and_nothing_else(writing: Writing, tmp_path: Path) -> None:
    done = labcode(*writing.told(tmp_path))
    made = writing.made(tmp_path)
    assert done.returncode == 0 and str(made) in done.stdout, done.stderr
    size = made.stat().st_size
    made.write_text("older")
    with little_space(size - 1):
        said = one_line(labcode(*writing.told(tmp_path)))
    assert any(words in said for words in ("File too large", "file too large", "disk I/O error")), said
    assert str(tmp_path) in said and ".labcode-" not in said
    assert made.read_text() == "older"
    assert [path.name for path in made.parent.iterdir()] == [made.name]


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_no_command_writes_over_what_it_reads(
    writing: Writing, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    suffix = "".join(writing.reads.suffixes)
    mine = tmp_path / f"mine{suffix}"
    shutil.copy(writing.reads, mine)
    before = mine.read_bytes()
    verb, _, *rest = writing.words
    output = tmp_path / (f"mine{writing.output[1:]}" if writing.folder else writing.output)
    if output != mine:
        link(output, mine)
    said = one_line(labcode(verb, mine, *rest, "--force", "-o", tmp_path if writing.folder else output))
    assert f"{output}: is the input itself; choose another name for the output" in said
    assert mine.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, output.name}


@pytest.mark.parametrize("words", [("timeline", TRACE), ("scrub", TRACE), ("scrub", NCU), ("scrub", NSYS)])
def test_nor_does_it_by_the_same_name(inputs: Path, tmp_path: Path, words: tuple[str, str]) -> None:
    mine = Path(shutil.copy(inputs / words[1], tmp_path))
    before = mine.read_bytes()
    said = one_line(labcode(words[0], mine.name, "-o", mine, cwd=tmp_path))
    assert f"{mine}: is the input itself" in said and mine.read_bytes() == before


def test_a_roofline_is_not_written_over_its_ceilings(inputs: Path, tmp_path: Path) -> None:
    table = tmp_path / "c.svg"
    table.write_text('{"ceilings": []}')
    said = one_line(labcode("roofline", inputs / ROOFS, "--ceilings", table, "--force", "-o", table))
    assert "c.svg: is the input itself" in said and table.read_text() == '{"ceilings": []}'


def test_a_timeline_is_not_written_over_a_rank_of_its_folder(tmp_path: Path) -> None:
    one, other = traces.training(tmp_path, ranks=2, steps=2, layers=2, packed=False)
    before = one.read_bytes()
    said = one_line(labcode("timeline", tmp_path, "--force", "-o", one))
    assert f"{one}: is the input itself" in said and one.read_bytes() == before and other.exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [("nowhere/x.svg", "there is no folder"), ("folder.svg", "a folder or a device, not a file")],
)
def test_places_where_nothing_can_be_written(inputs: Path, tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    assert message in one_line(labcode("timeline", inputs / NSYS, "-o", tmp_path / place))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


def test_a_link_to_the_output_stays_a_link(inputs: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("older")
    real.chmod(0o640)
    link.symlink_to(real)
    assert labcode("flame", inputs / NSYS, "--force", "-o", link).returncode == 0
    assert link.is_symlink() and "labcode/a.py" in real.read_text() and real.stat().st_mode & 0o777 == 0o640


# ---- what ends a command


SLOW = """
import signal, sys, time
from pathlib import Path
from labcode.capture import scrub

def slow(source, target, also):
    check(source, target, also)
    Path({mark!r}).write_text(str(target))
    time.sleep(60)

check, scrub.scrub_export = scrub.scrub_export, slow
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored beneath nohup
sys.argv = ["labcode", "scrub", {file!r}, "--force", "-o", {output!r}]
from labcode.cli import main
main()
"""


@contextlib.contextmanager
def halfway(file: Path, output: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A `labcode scrub` that waits where the unscrubbed export is unpacked; and where that lies."""
    mark = output.with_name("mark")
    code = SLOW.format(mark=str(mark), file=str(file), output=str(output))
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if mark.exists() and mark.read_text():
                break
            time.sleep(0.05)
        work = Path(mark.read_text()).parent
        mark.unlink()
        yield process, work
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_private(inputs: Path, tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "out.sqlite.xz"
    output.write_text("older")
    with halfway(inputs / "a.sqlite.xz", output) as (process, work):
        assert work.parent == tmp_path and work.stat().st_mode & 0o777 == 0o700
        assert (work / "raw.sqlite").exists()
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 128 + number
    assert said == f"labcode: ended by {number.name}; nothing was left half-written\n"
    assert [path.name for path in tmp_path.iterdir()] == [output.name] and output.read_text() == "older"


def test_what_a_killed_command_left_is_removed_by_the_next_one(inputs: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.sqlite.xz"
    with (
        halfway(inputs / "a.sqlite.xz", output) as (running, alive),
        halfway(inputs / "a.sqlite.xz", output) as (process, left),
    ):
        process.kill()
        process.wait()
        assert (left / "raw.sqlite").exists()
        (tmp_path / ".labcode-of-somebody-else").mkdir()
        assert labcode("scrub", inputs / "a.sqlite.xz", "--force", "-o", output).returncode == 0
        assert not left.exists() and output.exists()
        assert (alive / "raw.sqlite").exists() and running.poll() is None
        assert (tmp_path / ".labcode-of-somebody-else").exists()


def test_a_signal_that_is_ignored_stays_ignored(inputs: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from labcode import cli, store\n"
        "store.list_sets = lambda: os.kill(os.getpid(), signal.SIGHUP) or []\n"
        "sys.argv = ['labcode', 'captures', 'list']; cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "no capture sets" in done.stdout and done.stderr == ""


# ---- sets and archives


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set ``mine`` with one experiment of one file."""
    held = json.dumps({"results": {"time_ms": 1.0}, "filler": "x" * 5000}).encode()
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "sets"))
    return make_set(tmp_path / "sets" / "mine", {"one": {"run": {"run.json": held}}})


def test_an_archive_on_a_full_disk(mine: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.tar"
    packed.write_text("older")
    with little_space(4000), pytest.raises(OSError, match="too large"):
        archive.write(packed, mine, ["one"])
    assert packed.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "sets"]


def test_an_archive_is_not_written_over_its_set(mine: Path, tmp_path: Path) -> None:
    before = (mine / "manifest.json").read_bytes()
    (tmp_path / "a.tar").symlink_to(mine / "manifest.json")
    with pytest.raises(Exception, match=r"a\.tar: is the input itself"):
        archive.write(tmp_path / "a.tar", mine, ["one"])
    assert (mine / "manifest.json").read_bytes() == before


def test_adding_an_archive_on_a_full_disk_leaves_the_set_as_it_was(mine: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.tar"
    archive.write(packed, mine, ["one"])
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    with little_space(4000):
        assert "File too large" in one_line(labcode("captures", "add", packed))
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before


def test_an_archive_inside_of_the_set_that_it_would_change_is_refused(mine: Path) -> None:
    packed = mine / "one" / "a.tar"
    archive.write(packed, mine, ["one"])
    assert "a.tar: lies in the set that it would change" in one_line(labcode("captures", "add", packed))
    assert packed.exists()


def test_claims_on_a_full_disk(tmp_path: Path) -> None:
    from labcode.book.claims import check, write_claims

    path = tmp_path / "claims.json"
    path.write_text("older")
    claims = {f"page#{n}": check(f"claim {n}", 1.0, at_least=0.5) for n in range(50)}
    with little_space(1000), pytest.raises(OSError, match="too large"):
        write_claims(path, "mine", claims)
    assert path.read_text() == "older" and [p.name for p in tmp_path.iterdir()] == ["claims.json"]


def test_the_unpacked_bytes_of_a_capture_are_nobody_elses(inputs: Path) -> None:
    assert labcode("stats", inputs / "a.sqlite.xz").returncode == 0
    (folder,) = (inputs / "cache").glob("unpacked-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(lzma.compress(path.read_bytes()) for path in folder.glob("*.sqlite"))


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [lambda path: path.write_bytes(b"SQLite format 3\0 poison"), lambda path: os.truncate(path, 100)],
)
def test_a_changed_file_of_the_cache_is_thrown_away(inputs: Path, change: Change) -> None:
    before = labcode("stats", inputs / "a.sqlite.xz", "-r", "cuda_gpu_kern_sum").stdout
    (unpacked,) = (inputs / "cache").glob("unpacked-*/*.sqlite")
    change(unpacked)
    again = labcode("stats", inputs / "a.sqlite.xz", "-r", "cuda_gpu_kern_sum")
    assert again.returncode == 0 and again.stdout == before != ""
    assert unpacked.read_bytes() == (inputs / NSYS).read_bytes()


def test_unpacking_on_a_full_disk_leaves_nothing(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    with little_space(1000):
        said = one_line(labcode("stats", inputs / "a.sqlite.xz"))
    (folder,) = (tmp_path / "cache").iterdir()
    assert f"{folder}: File too large; it would be larger than this process may write" in said
    assert list(folder.iterdir()) == []
