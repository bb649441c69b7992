"""Files of every format that no tool ever wrote: a random generator and a folder in, a file there out."""

import functools
import gzip
import json
import lzma
import random
import sqlite3
import struct
import tarfile
from collections.abc import Callable
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from tests.hostile.values import HUGE, NUMBERS, TEXTS, as_json, changed, damaged, weird
from tests.support import gpu_metrics, histories, memory_usage, pftraces, power, ranks, stacks, traces
from tests.support import ncu as golden
from tests.support.random_export import make_random_export
from tests.support.sets import make_set

# ---- captures of Nsight Systems


def nsys(rng: random.Random, folder: Path, name: str = "run") -> Path:
    """An export whose tables, columns, types, rows or pages are not what they should be."""
    path = folder / f"{name}.sqlite"
    make_random_export(
        path, rng.randrange(1 << 30), calls=rng.choice((3, 20, 60)), shuffled=rng.random() < 0.3
    )
    more = rng.random()
    if more < 0.3:
        gpu_metrics.add_metrics(path, {"SMs Active": [(t, t % 100) for t in range(0, 100, 7)]})
    if more < 0.5:
        operations = [(t, t % 2, 4096 + t // 2, 1 << 20) for t in range(20)]
        memory_usage.add_memory_usage(path, operations)
    with closing(sqlite3.connect(path)) as db:
        if more > 0.6:
            sql = stacks.cpu_samples([(t, ("main", f"f{t % 3}")) for t in range(0, 60, 5)])
            for statement in sql:
                db.execute(statement)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice((1, 1, 2, 4))):
            with suppress(sqlite3.Error):
                _change_export(rng, db, rng.choice(tables))
        db.commit()
    if rng.random() < 0.12:
        path.write_bytes(damaged(rng, path.read_bytes()))
    if rng.random() < 0.3:
        packed = folder / f"{name}.sqlite.xz"
        data = lzma.compress(path.read_bytes(), preset=0)
        packed.write_bytes(damaged(rng, data) if rng.random() < 0.2 else data)
        path.unlink()
        return packed
    return path


def _value(rng: random.Random) -> Any:
    """Anything SQLite can hold."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(TEXTS).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if kind < 0.8:
        return rng.choice(NUMBERS)
    return rng.choice((None, b"\xff\xfe\x00", b"", rng.randbytes(200), float("inf")))


def _change_export(rng: random.Random, db: sqlite3.Connection, table: str) -> None:
    columns = [
        str(row[0]) for row in db.execute(f'SELECT CAST(name AS TEXT) FROM pragma_table_info("{table}")')
    ]
    if not columns:  # all of them are gone
        return
    column = rng.choice(columns)
    rows = f'UPDATE "{table}" SET "{column}" ='
    what = rng.randrange(20)
    if what <= 3:  # names, wherever they are
        for number in range(1, 30):
            db.execute("UPDATE StringIds SET value = ? WHERE id = ?", (rng.choice(TEXTS), number))
    elif what <= 5:
        some = rng.choice(("", " WHERE rowid % 2 = 0", " WHERE rowid = 1"))
        db.execute(f"{rows} ?{some}", (_value(rng),))
    elif what == 6:
        db.execute(f'DROP TABLE "{table}"')
    elif what == 7:
        db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif what == 8:
        other = rng.choice(("x", "START", 'a"b', "\u202e", "select"))
        db.execute(
            f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{other.replace(chr(34), chr(34) * 2)}"'
        )
    elif what == 9:
        db.execute(f'DELETE FROM "{table}"')
    elif what == 10:
        db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
    elif what == 11:
        db.execute(f'{rows} CAST("{column}" AS {rng.choice(("TEXT", "BLOB", "REAL"))})')
    elif what == 12:
        db.execute(f'{rows} "{column}" * {rng.choice((-1, 1000, 10**12, 2**40))}')
    elif what == 13 and {"start", "end"} <= set(columns):
        db.execute(f'UPDATE "{table}" SET start = "end", "end" = start')
    elif what == 14:
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        view = rng.choice((f'SELECT * FROM "{table}_old"', "SELECT 1 AS id, 2 AS value", endless))
        db.execute(f'CREATE VIEW "{table}" AS {view}')
    elif what == 15:
        text = rng.choice(TEXTS)
        for name in ("NVTX_EVENTS", "TARGET_INFO_GPU", "ThreadNames", "PROCESSES"):
            with suppress(sqlite3.Error):
                db.execute(f'UPDATE "{name}" SET {"text" if name == "NVTX_EVENTS" else "name"} = ?', (text,))
    elif what == 16:
        db.execute(
            "UPDATE META_DATA_EXPORT SET value = ?", (rng.choice((*TEXTS, "3.99.0", "9.0.0", "1.0.0")),)
        )
    elif what == 17:
        db.execute(f'CREATE TABLE "{rng.choice(TEXTS).replace(chr(34), "")[:50]}\u202e" (a, b)')
        db.execute('CREATE TABLE "CUPTI_ACTIVITY_KIND_UNKNOWN" (start, "end")')
    elif what == 18:
        db.execute("UPDATE StringIds SET value = CAST(x'fffe41' AS TEXT) WHERE id % 2 = 0")
    else:
        db.execute(f'UPDATE "{table}" SET "{rng.choice(columns)}" = "{column}"')


# ---- JSON: traces of PyTorch, histories of its allocator, power logs, grades, and others


def _written(rng: random.Random, folder: Path, name: str, value: Any) -> Path:
    """The JSON of a value that was changed, packed as the name says."""
    data = as_json(rng, changed(rng, value, rng.choice((1, 1, 2, 3, 8))))
    path = folder / name
    if name.endswith(".gz"):
        data = gzip.compress(data, 1)
    elif name.endswith(".xz"):
        data = lzma.compress(data, preset=0)
    packed = not name.endswith(".json")
    path.write_bytes(damaged(rng, data) if packed and rng.random() < 0.15 else data)
    return path


@functools.cache
def _trace() -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return traces.training(Path(folder), steps=2, layers=1)[0].read_text()


def kineto(rng: random.Random, folder: Path, name: str = "run.trace.json") -> Path:
    """A trace of torch.profiler with other values, members and names."""
    trace = json.loads(_trace())
    if rng.random() < 0.5:
        for event in rng.sample(trace["traceEvents"], 12):
            event["name"] = rng.choice(TEXTS)
            if isinstance(event.get("args"), dict) and rng.random() < 0.5:
                event["args"][rng.choice(list(event["args"]) or ["a"])] = weird(rng)
    return _written(rng, folder, name + rng.choice(("", "", ".gz")), trace)


@functools.cache
def _pftrace() -> bytes:
    import tempfile

    from labcode.figures.timeline.perfetto import write_pftrace
    from labcode.reports.kineto.report import open_trace

    with tempfile.TemporaryDirectory() as folder:
        written = BytesIO()
        with open_trace(traces.training(Path(folder), steps=2, layers=1)[0]) as report:
            write_pftrace(report, written)
    return written.getvalue()


def pftrace(rng: random.Random, folder: Path) -> Path:
    """A trace of Perfetto with other lengths, numbers, texts and packets."""
    data = bytearray(_pftrace() if rng.random() < 0.7 else pftraces.rocprof())
    for _ in range(rng.choice((0, 1, 1, 3, 30))):
        at = rng.randrange(len(data))
        put = rng.choice((b"\xff" * 9 + b"\x01", b"\0", rng.randbytes(4), b"\x0a", b"\x0b", b"\x80" * 12))
        data[at : at + rng.choice((1, 1, len(put)))] = put
    more = []
    for _ in range(rng.choice((0, 0, 3, 20))):
        text, number = rng.choice(TEXTS), int(rng.choice([n for n in NUMBERS if isinstance(n, int)]))
        kind = rng.choice((0, 1, 1, 2, 3, 4, 99))
        category = rng.choice(("kernel", "nvtx", "api", "memcpy", "graph", "cpu_instant_event", text))
        argument = (
            rng.choice(("grid", "bytes", "stream", "device", "correlation", text)),
            rng.choice((text, number)),
        )
        event = pftraces.event(number, kind, rng.choice((1, 2, 20, number)), text, category, argument)
        track = pftraces.track(rng.choice((1, 2, 20)), text, rng.choice((1, 2, 20, number)))
        more.append(rng.choice((event, event, track, pftraces.packed(event, track), rng.randbytes(20))))
    made = bytes(data) + pftraces.trace(*more) if rng.random() < 0.5 else pftraces.trace(*more) + bytes(data)
    path = folder / ("run.pftrace" + rng.choice(("", "", ".gz")))
    made = gzip.compress(made, 1) if path.suffix == ".gz" else made
    path.write_bytes(damaged(rng, made) if rng.random() < 0.2 else made)
    return path


def memory(rng: random.Random, folder: Path) -> Path:
    """A history of the allocator."""
    history = histories.leaking(rng.choice((1, 10)))
    history["frames"] = json.loads(json.dumps(history["frames"]))
    if rng.random() < 0.5:
        for frame in history["frames"]:
            frame[rng.choice(("file", "function"))] = rng.choice(TEXTS)
    if rng.random() < 0.3:
        for event in rng.sample(history["events"], 3):
            event[rng.choice(list(event))] = rng.choice((*NUMBERS, *HUGE))
    return _written(rng, folder, "run.memory.json" + rng.choice(("", ".xz")), history)


@functools.cache
def _power() -> str:
    devices = [power.device(power.steady(), seconds=3.0, period_s=0.1, number=n) for n in (0, 1)]
    document = power.document(*devices, windows=[("warm", 0.5, 1.0), ("work", 1.0, 2.0), ("in", 1.2, 1.5)])
    return msgspec.json.encode(document).decode()


def power_log(rng: random.Random, folder: Path) -> Path:
    """A log of the power meter."""
    log = json.loads(_power())
    if rng.random() < 0.4:
        for device in log["devices"]:
            device["name"] = rng.choice(TEXTS)
        for window in log["windows"]:
            window[next(iter(window)) if isinstance(window, dict) else 0] = rng.choice(TEXTS)
    return _written(rng, folder, "run.power.json" + rng.choice(("", ".xz")), log)


def grades(rng: random.Random, folder: Path) -> Path:
    """Verdicts of some learner."""
    part = {"name": "part", "verdict": "passed", "points": 1, "said": rng.choice(TEXTS)}
    document = {
        "schema": 1,
        "made": "2026-01-01T00:00:00",
        "labcode": "1",
        "exercises": [{"id": "nsys_ex01", "passed": True, "parts": [part, dict(part)], "file": "a.py"}],
    }
    return _written(rng, folder, f"{rng.choice(('anna', 'bo', chr(0x202E) + 'b'))}.json", document)


def claims(rng: random.Random, folder: Path) -> Path:
    """A capture set: its manifest, records and claims."""
    name = rng.choice(("h200", "mine", "odd set", "a-b_c"))
    record = {"results": {"rows": [{"way": "a", "call_us": 1.5}], "gflops": 12.5}, "program": "p"}
    runs = {"r": {"r.json": json.dumps(record).encode()}, "s": {"s.json": b"{}"}}
    path = make_set(folder / name, {"one": runs, "timeline_basics": runs})
    manifest = json.loads((path / "manifest.json").read_text())
    if rng.random() < 0.4:
        manifest["experiments"]["one"]["title"] = rng.choice(TEXTS)
        manifest["machines"]["m1"]["driver"] = rng.choice(TEXTS)
    if rng.random() < 0.9:
        _written(rng, path, "manifest.json", manifest)
    claim = {
        "key": "k",
        "text": "a claim",
        "shown": "1",
        "bound": "≥ 1",
        "value": 1.0,
        "holds": True,
        "host": False,
    }
    claim |= {"page": "p"}
    _written(rng, path, "claims.json", {"schema": 1, "claims": {"p#k": claim}})
    if rng.random() < 0.3:
        _written(rng, path / "one", "r.json", record)
    return folder


# ---- reports of Nsight Compute


def ncu(rng: random.Random, folder: Path) -> Path:
    """A report with other numbers, texts and lengths in its protobuf."""
    data = bytearray(golden.path(f"{rng.choice(('few', 'few', 'basic', 'sol'))}.ncu-rep").read_bytes())
    for _ in range(rng.choice((1, 1, 3, 30))):
        _change_report(rng, data)
    changed_data = damaged(rng, bytes(data)) if rng.random() < 0.2 else bytes(data)
    path = folder / ("run.ncu-rep" + rng.choice(("", ".xz")))
    path.write_bytes(lzma.compress(changed_data, preset=0) if path.suffix == ".xz" else changed_data)
    return path


def _change_report(rng: random.Random, data: bytearray) -> None:
    what = rng.randrange(4)
    texts = [at for at in range(0, len(data) - 8, 97) if data[at : at + 6].isalpha()]
    if what == 0 and texts:  # a text of the same length
        at = rng.choice(texts)
        put = rng.choice([text for text in TEXTS if text]).encode("utf-8", "replace")[:6]
        data[at : at + len(put)] = put
    elif what == 1:
        at = rng.randrange(len(data))
        data[at] = rng.randrange(256)
    elif what == 2:
        at = rng.randrange(len(data) - 8)
        data[at : at + 8] = struct.pack("<d", rng.choice((1e308, -1.0, float("nan"), float("inf"), 0.0)))
    else:
        at = rng.randrange(len(data) - 10)
        data[at : at + 10] = b"\xff" * 9 + b"\x01"


# ---- archives of captures


def archive(rng: random.Random, folder: Path) -> Path:
    """A .tar that holds more, less, or something else than its manifest says."""
    record = json.dumps({"results": {"a": 1}, "program": "p"}).encode()
    held = make_set(folder / "mine", {"one": {"r": {"r.json": record}}, "two": {"r": {"r.json": record}}})
    manifest = json.loads((held / "manifest.json").read_text())
    members: list[tuple[tarfile.TarInfo, bytes]] = []

    def add(name: str, data: bytes, kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.linkname = len(data), kind, link
        members.append((info, data))

    if rng.random() < 0.6:
        manifest = changed(rng, manifest, rng.choice((1, 1, 2, 4)))
    add("manifest.json", as_json(rng, manifest) if rng.random() < 0.3 else json.dumps(manifest).encode())
    for experiment in ("one", "two"):
        content = record
        if rng.random() < 0.15:
            content = as_json(rng, changed(rng, json.loads(record), 2))
        add(f"{experiment}/r.json", content)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        name = rng.choice(
            ("../evil", "/etc/evil", "one/../../evil", "one/r.json", "one/x.py", "\x1b[31m/r.json", "a" * 300)
        )
        kind = rng.choice(
            (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
        )
        kind = rng.choice((kind, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE))
        add(
            name,
            b"x" if kind == tarfile.REGTYPE else b"",
            kind,
            link=rng.choice(("/etc/passwd", "../..", "one")),
        )
    if rng.random() < 0.1:
        members.pop(rng.randrange(len(members)))
    if rng.random() < 0.1:
        rng.shuffle(members)
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, BytesIO(data))
    path = folder / "a.tar"
    path.write_bytes(damaged(rng, packed.getvalue()) if rng.random() < 0.2 else packed.getvalue())
    return path


# ---- folders and what lies in place of files


def rank_folder(rng: random.Random, folder: Path) -> Path:
    """A run of some ranks, of which some are not what they should be."""
    run = folder / "run"
    run.mkdir()
    count = rng.choice((1, 2, 3))
    for number in range(count):
        ranks.rank(run, number, clock_ns=rng.choice((0, 5_000, 10**15)), steps=rng.choice((1, 4)))
    for what in rng.sample(range(7), rng.choice((0, 1, 2))):
        if what == 0:
            nsys(rng, run, f"run.rank{rng.choice((0, 1, 9, 10**9))}")
        elif what == 1:
            kineto(rng, run, f"run.rank{rng.randrange(3)}.trace.json")
        elif what == 2:
            (run / "run.rank7.sqlite").write_bytes(rng.randbytes(100))
        elif what == 3:
            (run / "run.rank8.sqlite").symlink_to(
                rng.choice(("run.rank0.sqlite", "nowhere", "/dev/zero", "."))
            )
        elif what == 4:
            (run / "run.rank5.sqlite").mkdir()
        elif what == 5:
            with closing(sqlite3.connect(run / "run.rank0.sqlite")) as db, suppress(sqlite3.Error):
                for _ in range(3):
                    _change_export(rng, db, rng.choice(("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS")))
                db.commit()
        else:
            (run / rng.choice(("notes.txt", "\x1b[31m", "run.rank.sqlite"))).write_text("x")
    return run


def other(rng: random.Random, folder: Path) -> Path:
    """What lies where a file should be: a folder, a device, a link, another format under a wrong name."""
    import os

    name = rng.choice(
        (
            "run.sqlite",
            "run.sqlite.xz",
            "run.ncu-rep",
            "run.trace.json",
            "run.trace.json.gz",
            "run.pftrace",
            "run.memory.json",
            "run.power.json",
            "run.nsys-rep",
            "run",
            "a.pickle",
            "\u202erun.sqlite",
            "--all",
            "-",
            "run\n.sqlite",
            os.fsdecode(b"\xff.sqlite"),
            "a" * 255,
        )
    )
    path = folder / name
    what = rng.randrange(10)
    if what == 0:
        path.mkdir()
    elif what == 1:
        os.mkfifo(path)
    elif what == 2:
        path.symlink_to(rng.choice(("nowhere", name, "/dev/zero", "/dev/null", "/proc/self/environ", ".")))
    elif what == 3:
        path.write_bytes(rng.randbytes(rng.choice((0, 1, 4096))))
    elif what == 4:
        path.write_bytes(
            rng.choice((b"SQLite format 3\0", b"\xfd7zXZ\0", b"\x1f\x8b", b"NVR\0", b"{", b"[" * 10**6))
        )
    elif what == 5:
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    elif what == 6:
        path.write_bytes(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.")
    elif what == 7:
        with suppress(sqlite3.Error), closing(sqlite3.connect(os.fsencode(path))) as db:
            db.execute("CREATE TABLE a (b)")
    elif what == 8:
        make: Callable[[random.Random, Path], Path] = rng.choice((kineto, memory, power_log, ncu, nsys))
        make(rng, folder).replace(path)
    return path


def python(rng: random.Random, folder: Path) -> Path:
    """Rules of one's own, as a file of Python that is none, or that misbehaves."""
    text = rng.choice(
        (
            "",
            "def",
            "raise SystemExit(3)",
            "1/0",
            "import os; os._exit(0)" * 0 + "x = 1",
            "RULES = 3",
            "\x00",
            "# -*- coding: utf-7 -*-\nx",
            "from labcode.analysis.rules import nothing",
            "RULES = [1, 'a']",
            "def rule(): pass\nRULES = [rule]",
            "raise KeyboardInterrupt" * 0 + "raise RecursionError",
            f"print({TEXTS[0]!r})",
            "raise Exception('\\x1b[31m')",
            "()" * 300,
            "\ud800",
        )
    )
    path = folder / "rules.py"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path
