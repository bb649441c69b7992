"""Files that are right in all but their size: a folder and a number in, a file with so many of something out.

python -m tests.hostile.sizes                 each command on each, at full size
python -m tests.hostile.sizes streams:report  those whose name begins so
"""

from __future__ import annotations

import json
import lzma
import sqlite3
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.hostile import judge
from tests.hostile.judge import Asked, Ended, run
from tests.support import exports, power, ranks
from tests.support.sets import make_set

Make = Callable[[Path, int], Path]


@dataclass(frozen=True)
class Size:
    """A command on a file of ``few`` things in each change, and of ``many`` in the whole campaign."""

    name: str
    make: Make
    few: int
    many: int
    words: tuple[str, ...]
    sets: bool = False

    def case(self, count: int) -> Ended:
        """Make the file, run the command on it and judge its end."""

        def make(folder: Path) -> Asked:
            if self.sets:
                (folder / "home" / "sets").mkdir()
            path = self.make(folder / ("home/sets" if self.sets else "in"), count)
            words = [word.replace("FILE", str(path)).replace("OUT", "{out}") for word in self.words]
            sets = {"LABCODE_SETS": str(folder / "home" / "sets")} if self.sets else {}
            return Asked(words, markdown="md" in words, environment=sets)

        return run(make, terminal=False)


def _operations(folder: Path, count: int, kernel: Callable[[int], exports.Row]) -> Path:
    """Kernels back to back, each with its launch."""
    return exports.make_export(
        folder / "run.sqlite",
        kernels=(kernel(k) for k in range(count)),
        api=(exports.call(100 * k, 100 * k + 40, correlation=k) for k in range(count)),
        nvtx=[exports.push_pop(0, 100 * count, "step")],
    )


def streams(folder: Path, count: int) -> Path:
    """Each kernel on a stream of its own."""
    return _operations(
        folder,
        count,
        lambda k: exports.kernel(100 * k + 50, 100 * k + 140, f"k{k % 9}(int)", stream=k, correlation=k),
    )


def devices(folder: Path, count: int) -> Path:
    """Each kernel on a GPU of its own."""
    return _operations(
        folder,
        count,
        lambda k: exports.kernel(100 * k + 50, 100 * k + 140, f"k{k % 9}(int)", device=k, correlation=k),
    )


def names(folder: Path, count: int) -> Path:
    """Each kernel with a name of its own."""
    path = _operations(folder, 1, lambda k: exports.kernel(50, 140, "k(int)", correlation=0))
    with closing(sqlite3.connect(path)) as db:
        counted = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
        db.execute(f"{counted} INSERT INTO StringIds SELECT 1000 + i, 'k' || i || '(int)' FROM n")
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            moved = dict.fromkeys(("start", "end"), '"{}" + 100 * i') | {"correlationId": "i"}
            moved |= dict.fromkeys(("demangledName", "shortName"), "1000 + i")
            chosen = ", ".join(moved.get(name, '"{}"').format(name) for name in columns)
            db.execute(f"{counted} INSERT INTO {table} SELECT {chosen} FROM {table}, n")
        db.commit()
    return path


def long_names(folder: Path, size: int) -> Path:
    """A dozen kernels and ranges whose names have so many characters."""
    return exports.make_export(
        folder / "run.sqlite",
        kernels=[exports.kernel(100 * k + 50, 100 * k + 140, f"{k}" * size, correlation=k) for k in range(6)],
        api=[exports.call(100 * k, 100 * k + 40, correlation=k) for k in range(6)],
        nvtx=[exports.push_pop(100 * k, 100 * k + 90, f"r{k}" * (size // 2)) for k in range(6)],
        gpus=[exports.gpu(name="NVIDIA " * (size // 7))],
    )


def nested(folder: Path, count: int) -> Path:
    """Ranges within each other."""
    return exports.make_export(
        folder / "run.sqlite",
        kernels=[exports.kernel(count + 20, count + 30, correlation=1)],
        api=[exports.call(count + 1, count + 2, correlation=1)],
        nvtx=[exports.push_pop(k, 3 * count - k, f"r{k}") for k in range(count)],
    )


def windows(folder: Path, count: int) -> Path:
    """A power log with windows within each other."""
    spans = [(f"w{k}", 1.0 + k * 4e-6, 11.0 - k * 4e-6) for k in range(count)]
    document = power.document(power.device(power.steady()), windows=spans)
    path = folder / "run.power.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def device_name(folder: Path, size: int) -> Path:
    """A power log of a GPU whose name has so many characters."""
    document = power.document(power.device(power.steady(), name="x" * size), windows=[("work", 1.0, 9.0)])
    path = folder / "run.power.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def many_ranks(folder: Path, count: int) -> Path:
    """A folder of so many ranks, all alike."""
    made = ranks.rank(folder, 0)
    for number in range(1, count):
        (folder / f"run.rank{number}.sqlite").hardlink_to(made)
    return folder


def parts(folder: Path, count: int) -> Path:
    """The grades of so many parts."""
    part = {"worth": 1.0, "status": "passed", "headline": "right", "details": ["as it should be"]}
    part["sha256"] = "0" * 64
    found = [{"id": f"nsys-ex{k}-x:a", "title": f"part {k}", **part} for k in range(count)]
    document = {"schema": "labcode.grades", "version": 1, "labcode": "1", "captures": "h200"}
    path = folder / "anna.json"
    path.write_text(json.dumps({**document, "graded": "2026-01-01T00:00:00+00:00", "parts": found}))
    return path


def long_part(folder: Path, size: int) -> Path:
    """A part whose title and verdict have so many characters."""
    path = parts(folder, 1)
    path.write_text(path.read_text().replace("part 0", "p" * size).replace("right", "r" * size))
    return path


def behind(folder: Path, size: int) -> Path:
    """A packed export with so many zeros behind it."""
    made = exports.make_export(folder / "run.sqlite", kernels=[exports.kernel(50, 140)])
    with lzma.open(folder / "run.sqlite.xz", "wb", preset=0) as out:
        out.write(made.read_bytes())
        for _ in range(size >> 20):
            out.write(bytes(1 << 20))
    made.unlink()
    return folder / "run.sqlite.xz"


def kernels(folder: Path, size: int) -> Path:
    """A trace of so many bytes of kernels."""
    path = folder / "run.trace.json"
    found = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": -1, "dur": 0.5}
    event = json.dumps({**found, "args": {"device": 0, "stream": 7, "correlation": -1}}) + ",\n"
    lines = event.encode().replace(b"-1", b"%10d") * 4096  # a number may have blanks before it
    with path.open("wb") as out:
        out.write(b'{"schemaVersion": 1, "traceEvents": [')
        for first in range(0, size // 128, 4096):
            out.write(lines % tuple(k for k in range(first, first + 4096) for _ in range(2)))
        out.write(b'{"ph": "i", "name": "end", "ts": 0}]}')
    return path


def spaces(folder: Path, size: int) -> Path:
    """A trace that is mostly blanks."""
    path = folder / "run.trace.json"
    with path.open("wb") as out:
        out.write(b'{"schemaVersion": 1, "traceEvents": [')
        for _ in range(size >> 20):
            out.write(b" " * (1 << 20))
        out.write(b"]}")
    return path


def _lists(count: int) -> bytes:
    begin = b'{"schema": 1, "frames": [], "segments": [], "live_before": [], "events": ['
    return begin + b"[]," * count + b"[]]}"


def history(folder: Path, count: int) -> Path:
    """A history of the allocator whose events are empty lists."""
    path = folder / "run.memory.json"
    path.write_bytes(_lists(count))
    return path


def set_of_lists(folder: Path, count: int) -> Path:
    """A capture set that holds such a history, packed."""
    packed = lzma.compress(_lists(count), preset=0)
    return make_set(folder / "mine", {"one": {"r": {"r.memory.json.xz": packed}}})


def members(folder: Path, count: int) -> Path:
    """An archive of so many folders, which are all the same."""
    info = tarfile.TarInfo("one")
    info.type = tarfile.DIRTYPE
    path = folder / "a.tar"
    with path.open("wb") as out:
        for _ in range(count // 1_000):
            out.write(info.tobuf() * 1_000)
        out.write(bytes(1024))
    return path


def _sizes() -> Iterator[Size]:
    commands = {
        "stats": ("stats", "FILE", "--all", "-o", "OUT"),
        "shown": ("stats", "FILE", "--all"),
        "diagnose": ("diagnose", "FILE"),
        "report": ("report", "FILE", "-o", "OUT/a.html"),
        "md": ("report", "FILE", "-f", "md"),
        "timeline": ("timeline", "FILE", "-o", "OUT/a.svg"),
        "page": ("timeline", "FILE", "-o", "OUT/a.html"),
        "compare": ("compare", "FILE", "FILE"),
        "flame": ("flame", "FILE", "-o", "OUT/a.svg"),
        "scrub": ("scrub", "FILE", "-o", "OUT/a.sqlite"),
    }
    shorter = ("stats", "diagnose", "report", "timeline")
    for make, few, many, which in (
        (streams, 40, 30_000, tuple(commands)),
        (devices, 40, 20_000, tuple(commands)),
        (names, 200, 1_000_000, tuple(commands)),
        (long_names, 20_000, 1_000_000, tuple(commands)),
        (nested, 200, 50_000, tuple(commands)),
        (windows, 300, 200_000, shorter),
        (device_name, 10_000, 20_000_000, shorter),
        (many_ranks, 3, 1_024, ("stats", "diagnose", "report", "timeline")),
        (spaces, 1 << 20, 3 << 30, ("stats", "diagnose", "report", "timeline", "scrub")),
        (behind, 1 << 20, 4 << 30, ("stats", "diagnose", "report", "timeline", "scrub")),
        (kernels, 1 << 16, 1 << 30, ("timeline",)),
        (history, 10_000, 320_000_000, shorter),
    ):
        for name in which:
            words = commands[name]
            if make in (many_ranks,):
                words = (*words, "--scheduler", "here") if name != "report" else words
            if make is behind and name == "scrub":
                words = ("scrub", "FILE", "-o", "OUT/a.sqlite.xz")
            if make is spaces and name == "scrub":
                words = ("scrub", "FILE", "-o", "OUT/a.trace.json")
            yield Size(f"{make.__name__}:{name}", make, few, many, words)
    for form in ("table", "md", "csv"):
        yield Size(f"parts:{form}", parts, 20, 10_000, ("grades", "FILE", "-f", form))
        yield Size(f"long_part:{form}", long_part, 10_000, 1_000_000, ("grades", "FILE", "-f", form))
    yield Size("members:add", members, 3_000, 1_000_000, ("captures", "add", "FILE"))
    yield Size("lists:verify", set_of_lists, 10_000, 320_000_000, ("captures", "verify", "mine"), sets=True)


SIZES = tuple(_sizes())


def main() -> None:
    """Print how each ended, at full size."""
    from tests.hostile.__main__ import ready

    ready()
    judge.LONGEST = 600.0  # files of gigabytes are made within it
    for size in SIZES:
        if not sys.argv[1:] or any(size.name.startswith(word) for word in sys.argv[1:]):
            ended = size.case(size.many)
            last = (ended.stderr.splitlines() or [""])[-1][:150]
            used = f"{ended.seconds:.1f} s, {ended.grown >> 20} MiB, read {ended.read >> 20} MiB"
            print(f"{size.name}: {ended.code}, {used}: {ended.faults} {last}", flush=True)


if __name__ == "__main__":
    main()
