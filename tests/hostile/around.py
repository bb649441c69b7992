"""What lies around a command: nsys of other years, rights it does not have, signals, other commands.

A random generator and a new folder in, the command that is tried out, as in the other cases of the campaign.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import os
import random
import shutil
import signal
import sqlite3
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from tests.hostile import formats, sizes
from tests.hostile.judge import STEERS, Asked, _half, _held
from tests.hostile.odd import Make, _asked, _columns, _export, formats_root
from tests.hostile.values import MARK
from tests.support import ranks
from tests.support.sets import make_set

# ---- exports as nsys of other years, or of another system, writes them


PATHS = (
    *(
        "C:\\Users\\zqx\\a b.exe",
        "\\\\zqx\\share\\run.exe",
        "\\\\?\\C:\\" + "x" * 300,
        "c:/zqx/../run",
        "a\r\nb",
    ),
    *(
        "C:\\Users\\M\u00fcller\\\u6d4b\u8bd5.exe",
        "/home/\u00e9/run",
        "/proc/self/exe (deleted)",
        "",
        "NUL",
        ".",
    ),
)
OLD = {"textId": "text", "shortName": "name", "demangledName": "mangledName", "globalTid": "threadId"}
OLD |= {"correlationId": "correlation", "deviceId": "gpuId", "nameId": "name", "end": "stop", "rangeId": "id"}


def versions(rng: random.Random, folder: Path) -> Asked:
    """Tables and columns that are missing, new, renamed or moved; paths as Windows writes them."""
    path = _export(rng, folder / "in")
    with closing(sqlite3.connect(path)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice((1, 2, 5))):
            with suppress(sqlite3.Error):
                _aged(rng, db, rng.choice(tables))
        db.commit()
    return _asked(rng, path)


def _aged(rng: random.Random, db: sqlite3.Connection, table: str) -> None:
    columns, what = _columns(db, table), rng.randrange(9)
    columns = columns or ["gone"]  # with the table, by an earlier step
    column = rng.choice(columns)
    if what == 0:
        db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif what == 1:
        column = rng.choice([one for one in columns if one in OLD] or columns)
        db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{OLD.get(column, column + "Id")}"')
    elif what == 2:
        db.execute(f'DROP TABLE "{table}"')
    elif what == 3:
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}{rng.choice(("_V2", "_2", "S"))}"')
    elif what == 4:
        new = rng.choice(("greenContextId", "graphNodeId", "uuid", "text", "start2", 'a"b', MARK))
        new = new.replace('"', '""')
        db.execute(
            f'ALTER TABLE "{table}" ADD COLUMN "{new}" DEFAULT {rng.choice(("NULL", "7", "zeroblob(9)"))}'
        )
    elif what == 5:
        order = ", ".join(f'"{one}"' for one in rng.sample(columns, len(columns)))
        db.execute(f'CREATE TABLE moved AS SELECT {order} FROM "{table}" ORDER BY random()')
        db.execute(f'DROP TABLE "{table}"')
        db.execute(f'ALTER TABLE moved RENAME TO "{table}"')
    elif what == 6:
        value = rng.choice(
            ("1.0.0", "2.9", "3", "3.99.0", "99.0.0", "3.20.3-beta", "", "x", "\u0663.1", "1" * 99)
        )
        db.execute("UPDATE META_DATA_EXPORT SET value = ? WHERE name LIKE 'EXPORT_SCHEMA_VERSION%'", (value,))
    elif what == 7:
        some = rng.choice(("", "WHERE rowid % 2", "WHERE rowid % 5 = 0"))
        db.execute(f"UPDATE StringIds SET value = ? {some}", (rng.choice(PATHS),))
    else:
        text = rng.choice(PATHS).encode("utf-16-le")
        db.execute("UPDATE StringIds SET value = CAST(? AS TEXT) WHERE rowid % 3 = 0", (text,))


# ---- what commands write to, and read


PLACES = (
    *(
        "in",
        "in/run.sqlite",
        "in/run.sqlite.xz",
        "in/run",
        "in/run/run.rank1.sqlite",
        "in/grades",
        "out",
        "tmp",
    ),
    *("out", "tmp", "home", "home/cache", "home/sets", "home/sets/mine", "home/sets/mine/manifest.json"),
    *("home/sets/mine/one", "home/sets/mine/one/r.json", "in/exercises/compute/ex10_online_softmax"),
)


def _commands(rng: random.Random, folder: Path) -> list[list[str]]:
    """What stands in `PLACES`, and commands that read it and write to the same few places."""
    made, sets = folder / "in", folder / "home" / "sets"
    export = _export(rng, made)
    packed, archive = made / "run.sqlite.xz", made / "more.tar"
    packed.write_bytes(lzma.compress(export.read_bytes(), preset=0))
    trace = formats.traces.training(made, steps=2, layers=1)[0]
    for name in ("run", "grades", "exercises/compute"):
        (made / name).mkdir(parents=True)
    for number in range(3):
        ranks.rank(made / "run", number)
    sizes.parts(made / "grades", 3)
    shutil.copytree(formats_root() / "exercises/compute/ex10_online_softmax", made / PLACES[-1][3:])
    record = json.dumps({"results": {"a": 1}, "program": "p"}).encode()
    sets.mkdir()
    (folder / "home" / "cache").mkdir()
    for name in ("mine", "other"):
        make_set(sets / name, {"one": {"r": {"r.json": record}}, "two": {"r": {"r.json": record}}})
    (sets / "loop").symlink_to(rng.choice(("loop", ".", "..", "mine/one", "nowhere")))
    if rng.random() < 0.3:
        (sets / "mine" / "one" / "again").symlink_to(rng.choice(("..", "again", ".")))
    formats.archive(rng, made).rename(archive)
    os.environ["LABCODE_SETS"] = str(sets)
    file, run = str(rng.choice((export, packed, trace))), str(made / "run")
    end = {export: "sqlite", packed: "sqlite.xz", trace: "trace.json"}[Path(file)]
    return [
        ["stats", file, "--all"],
        ["stats", run, "--all", "--scheduler", "here"],
        ["stats", file, "--all", "-o", "{out}/csv", "--force"],
        ["diagnose", file, "-f", "json"],
        ["diagnose", run, "--scheduler", "here"],
        ["report", file, "-o", "{out}/a.html", "--force"],
        ["timeline", file, "-o", "{out}/a.svg", "--force"],
        ["timeline", file, "-o", "{out}/b.html", "--force"],
        ["export", str(export), "-o", "{out}/tables", "--force"],
        ["scrub", file, "-o", "{out}/c." + end, "--force"],
        ["captures", "pack", "mine", "--archive", "{out}/a.tar", "--force"],
        ["captures", rng.choice(("export", "thin", "prune")), "mine", "--archive", "{out}/b.tar"],
        ["captures", "merge", "mine", "other"],
        ["captures", "add", str(archive)],
        ["captures", rng.choice(("restamp", "verify")), "mine"],
        ["captures", rng.choice(("list", "verify"))],
        ["exercises", "compute-ex10", "--answers", str(made), "--grades", "{out}/g.json", "--force"],
        ["exercises", "--hand-out", "{out}/lab.tar", "--force"],
        ["grades", str(made / "grades")],
        ["kit", "--python", "x", "-o", "{out}/k.tar", "--force"],
        ["doctor"],
    ]


_CAPABILITIES = 0x20080522  # of Linux: the form of the two words of each set


def _obey_modes() -> None:
    """From here on this process, root's too, reads and writes what the modes of files let their owner."""
    if os.geteuid() == 0:
        header, sets = struct.pack("<Ii", _CAPABILITIES, 0), ctypes.create_string_buffer(24)
        _LIBRARY.capget(header, sets)
        words = list(struct.unpack("<6I", sets.raw))
        words[0] &= ~0b1110  # of the effective ones: override modes, search folders, act as any owner
        if _LIBRARY.capset(header, struct.pack("<6I", *words)):
            raise OSError(ctypes.get_errno(), "capset")


def rights(rng: random.Random, folder: Path) -> Asked:
    """Files that may not be read and folders that may not be looked into, or written to."""
    words = rng.choice(_commands(rng, folder))
    places = sorted(folder / name for name in rng.sample(PLACES, rng.choice((1, 1, 2, 4))))
    modes = {place: place.stat().st_mode & 0o777 for place in places}

    def before() -> None:
        for place in reversed(places):  # what lies within first
            folders = (0o000, 0o000, 0o444, 0o555, 0o111, 0o222)
            place.chmod(rng.choice(folders if place.is_dir() else (0o000, 0o222)))
        _obey_modes()

    def after(_: Path, __: int) -> str:
        for place in places:
            place.chmod(modes[place])
        return ""

    return Asked(words, before=before, after=after)


_LIBRARY = ctypes.CDLL(None, use_errno=True)
_OWN_MOUNTS = 0x20000  # for unshare
_READ_ONLY, _AGAIN, _BIND, _WITHIN, _PRIVATE = 1, 32, 4096, 16384, 1 << 18  # for mount


def _mount(kind: str, place: Path | str, flags: int, options: str = "") -> bool:
    source = place if flags & _BIND else kind
    done = _LIBRARY.mount(str(source).encode(), str(place).encode(), kind.encode(), flags, options.encode())
    return not done


def disks(rng: random.Random, folder: Path) -> Asked:
    """File systems that are read-only, or full from the start or soon; a limit where none can be mounted."""
    words = rng.choice(_commands(rng, folder))
    some = [name for name in PLACES if (folder / name).is_dir()]
    places = [folder / name for name in rng.sample(some, rng.choice((1, 1, 2)))]
    full = folder / rng.choice(("out", "out", "tmp", "home/cache"))
    size = rng.choice((4, 4, 16, 64, 256))
    which = rng.randrange(3)
    mounts = (
        not os.geteuid() and not _LIBRARY.unshare(_OWN_MOUNTS) and _mount("none", "/", _WITHIN | _PRIVATE)
    )
    present: dict[str, object] = {**_held(folder)}

    def before() -> None:
        for place in places if which != 1 else ():
            assert _mount("none", place, _BIND) and _mount("none", place, _BIND | _AGAIN | _READ_ONLY)
        if which and full not in places:
            _mount("tmpfs", full, 0, f"size={size}k")
            with suppress(OSError):
                (full / "taken").write_bytes(bytes(rng.choice((0, size << 10))))
        present.update(_held(folder))

    def after(_: Path, code: int) -> str:
        there = _held(folder)
        left = [name for name in there.keys() - present.keys() if name.startswith(("out/", "tmp/"))]
        if code == 2 and left:
            return f"{words}: {left} although it failed"
        fault = _wrong(folder, present, killed=False)
        return f"{words}: {fault}" if fault else ""

    return Asked(
        words, before=before if mounts else None, file_bytes=0 if mounts else size << 10, after=after
    )


# ---- signals, and commands side by side


def _child(words: Sequence[str], said: Path) -> int:
    """A process that this one forks: the command; what it says goes to a file."""
    said.touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the command's own handler is there
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return pid
    try:
        os.setpgid(0, 0)
        out = said.open("w+b", buffering=0)
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        from labcode import __main__ as entry

        signal.signal(signal.SIGINT, entry._end)  # as when it is imported first
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        sys.argv = ["labcode", *(word.format(out=said.parents[1] / "out") for word in words)]
        code: object = 0
        try:
            entry.main()
        except SystemExit as ended:
            code = ended.code
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))
    finally:
        os._exit(99)


def _ended(pid: int, seconds: float) -> int | None:
    """How it ended, a signal as a negative number; None, and it is killed, where it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _wrong(folder: Path, before: Mapping[str, object], killed: bool) -> str:
    """What such commands left that is half-written, hidden or lies among temporary files."""
    for name in _held(folder).keys() - before.keys():
        path = folder / name
        if name.startswith(("out/", "home/sets/")) and "/.labcode-" not in name and path.is_file():
            if path.suffix in (".html", ".svg", ".json", ".md") and (fault := _half(path)):
                return f"{name}: {fault}"
        elif not killed and (name.startswith("tmp/") or "/.labcode-" in name):
            return f"{name} is left"
    return ""


def signals(rng: random.Random, folder: Path) -> Asked:
    """A request to end, of any kind and at any moment of a command."""
    words = rng.choice(_commands(rng, folder))
    number = rng.choice(("SIGTERM", "SIGTERM", "SIGHUP", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGKILL"))
    later = rng.choice((0.0, 0.01, 0.03, 0.1, 0.3, 0.8)) * rng.uniform(0.5, 2.0)
    twice = rng.random() < 0.2

    def after(place: Path, _: int) -> str:
        before, said = _held(place), place / "home" / "said"
        pid = _child(words, said)
        time.sleep(later)
        for _ in range(1 + twice):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[number])
            time.sleep(0.001)
        code, told = _ended(pid, 30), said.read_text(errors="replace")
        about = f"{words}, {number} after {later:.3f} s{', twice' if twice else ''}: "
        expected = (0, 1, 2, -signal.Signals[number], 128 + signal.Signals[number])
        if code not in expected:
            return about + f"ended with {code}: {told[-600:]}"
        if "Traceback" in told or "Exception ignored" in told:
            return about + told[-1500:]
        fault = _wrong(place, before, number == "SIGKILL")
        if number == "SIGKILL":  # nobody can tidy up then
            for left in (*(place / "out").rglob(".labcode-*"), *(place / "tmp").iterdir()):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        return about + fault if fault else ""

    return Asked(["--version"], after=after)


def together(rng: random.Random, folder: Path) -> Asked:
    """Two to four commands at once on the same files and folders."""
    every = _commands(rng, folder)
    words = rng.choice(
        (rng.choices(every, k=rng.choice((2, 3, 4))), [rng.choice(every)] * rng.choice((2, 3)))
    )

    def after(place: Path, _: int) -> str:
        before = _held(place)
        said = [place / "home" / f"said{number}" for number in range(len(words))]
        pids = []
        for one, where in zip(words, said, strict=True):
            pids.append(_child(one, where))
            time.sleep(rng.choice((0.0, 0.0, 0.02, 0.1)))
        for pid, one, where in zip(pids, words, said, strict=True):
            code, told = _ended(pid, 60), where.read_text(errors="replace")
            if code not in (0, 1, 2) or "Traceback" in told or STEERS.search(told):
                return f"{one} beside {words}: {code}: {told[-1500:]}"
        fault = _wrong(place, before, killed=False)
        return f"{words}: {fault}" if fault else ""

    return Asked(["--version"], after=after)


KINDS: Mapping[str, Make] = {
    "versions": versions,
    "rights": rights,
    "disks": disks,
    "signals": signals,
    "together": together,
}
