"""Capture sets on disk: a set's name in, its manifest and readable paths of its files out.

A set is a folder ``captures/<set>/`` with a ``manifest.json`` and one folder per experiment. The traces of an
experiment that its manifest calls *thin* may be elsewhere: the manifest has their names, sizes and hashes,
and `labcode captures add` brings them from an archive. This module only reads; `labcode.capture` writes. It
needs only the standard library.
"""

import hashlib
import json
import lzma
import math
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NotRequired, TypedDict, cast

from labcode import columnar
from labcode.errors import InputError, LabError
from labcode.inputs import plain_file, refuse_pointer
from labcode.outputs import cache_folder as cache_folder
from labcode.outputs import may_be_made as may_be_made
from labcode.outputs import private_folder
from labcode.outputs import repository_root as repository_root

MANIFEST_SCHEMA = 2
SHIPPED_SET = "h200"
CLAIMS_FILE = "claims.json"
_TRACES = (
    columnar.SUFFIX,
    ".sqlite.xz",
    ".ncu-rep.xz",
    ".trace.json.gz",
)  # what may be elsewhere; the rest is small
_COMPRESSED = ".xz"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_LARGEST_JSON = 1 << 28  # bytes
_LARGEST_PACKED = 1 << 32
LIMIT_VARIABLE = "LABCODE_LIMIT"
_LEAST_LIMIT = 1 << 28  # bytes that any packed file may unpack to …
_LARGEST_REPORT = 8 << 30  # bytes: its hash alone takes ten seconds at 0.8 GB/s
_MOST_PACKED = 200  # … or so many times its own; of captures that repeat themselves it is 130

Fact = str | int | float | bool | None


class Machine(TypedDict, total=False):
    """A machine as manifests describe it; what could not be determined is None or missing."""

    gpus: list[dict[str, Fact]]
    gpu_count: int | None
    driver: str | None
    cuda: str | None
    nvcc: str | None
    python: str | None
    torch: str | None
    nsys: str | None
    ncu: str | None
    os: str | None
    kernel: str | None
    virtualization: str | None
    cpu: str | None
    cpu_count: int | None
    cpu_cores: int | None
    cpu_sockets: int | None
    cpu_threads: int | None
    cpu_quota: float | None
    cpu_governor: str | None
    numa_nodes: int | None
    host_memory_gib: int | None


class FileEntry(TypedDict):
    """A file as a manifest has it, keyed by name: the SHA-256 and the number of its bytes as stored."""

    sha256: str
    bytes: int


class RunEntry(TypedDict):
    """A run as a manifest has it, keyed by name; see `RunRecord`."""

    argv: list[str]
    tool_args: list[str]
    files: dict[str, FileEntry]
    warnings: list[str]
    host_s: NotRequired[list[float]]


class TimedEntry(TypedDict):
    """See `TimedCode`."""

    sources: list[str]
    digest: str


class Made(TypedDict):
    """An experiment as it is captured, before a set says on which machine; see `ExperimentRecord`."""

    title: str
    tool: str
    captured: str
    sources: dict[str, str]
    wall_s: float
    runs: dict[str, RunEntry]
    timed: NotRequired[TimedEntry]
    thin: NotRequired[bool]
    shared_with: NotRequired[list[str]]
    note: NotRequired[str]


class Entry(Made):
    """An experiment as a manifest has it, keyed by id; ``machine`` is a key of the manifest's machines."""

    machine: str


class Manifest(TypedDict):
    """The content of ``manifest.json``; `parse_manifest` checks it and turns it into records."""

    schema: int
    set: str
    machines: dict[str, Machine]
    experiments: dict[str, Entry]
    skipped: NotRequired[dict[str, str]]


@dataclass(frozen=True)
class FileRecord:
    """One captured file: its name, the SHA-256 of its bytes as stored, its size in bytes as stored."""

    name: str
    sha256: str
    size_bytes: int

    @property
    def is_trace(self) -> bool:
        """Whether a profiler recorded this file; a thin experiment may lack such files."""
        return self.name.endswith(_TRACES)


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment: its command in neutral words, the tool's options and warnings, its files.

    ``host_s`` are seconds that the host took for a fixed piece of work before and after the run (see
    `labcode.hardware.host.pace_s`), where the experiment depends on it.
    """

    name: str
    argv: tuple[str, ...]
    tool_args: tuple[str, ...]
    files: tuple[FileRecord, ...]
    warnings: tuple[str, ...]
    host_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class TimedCode:
    """The part of the lab that an experiment timed: its sources (paths and globs) and their common digest."""

    sources: tuple[str, ...]
    digest: str


@dataclass(frozen=True)
class ExperimentRecord:
    """One experiment of a set, captured whole on one machine.

    ``sources`` are the files of the code that ran, each with a digest of its meaning (see
    `labcode.freshness`); sets of the first schema have none. ``timed`` is the part of the lab that was timed,
    where the lab measured itself. ``wall_s`` is the wall time of the whole capture in seconds; ``machine`` is
    a key of `CaptureSet.machines`. ``thin`` is True where its traces may be elsewhere; ``shared_with`` are
    experiments that ran at the same time on other GPUs of that machine.
    """

    id: str
    title: str
    tool: str
    machine: str
    captured: str
    sources: Mapping[str, str]
    wall_s: float
    runs: Mapping[str, RunRecord]
    timed: TimedCode | None = None
    thin: bool = False
    shared_with: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[FileRecord, ...]:
        """The files of all runs, as the manifest lists them."""
        return tuple(file for run in self.runs.values() for file in run.files)


RECORD = "a record"


@dataclass(frozen=True)
class Claim:
    """A statement of the book about a set, checked when its pages ran.

    ``shown`` is the value and ``bound`` the condition, both as printed. ``value`` is None where it is
    undefined; such a claim never holds. ``host`` is True where the value depends on the host. Where no
    argument gives a bound, ``bound`` is `RECORD`: the sentence only states what was measured.
    """

    key: str
    text: str
    value: float | None
    shown: str
    bound: str
    holds: bool
    host: bool = False

    @property
    def mark(self) -> str:
        """The mark shown before it: whether it holds, or that it is only a record."""
        return "✗" if not self.holds else "•" if self.bound == RECORD else "✓"


@dataclass(frozen=True)
class CaptureSet:
    """A set of captures: its folder, the machines it was measured on, and its experiments.

    ``skipped`` maps experiments that the machines' GPUs cannot run to what those lack.
    """

    name: str
    path: Path
    machines: Mapping[str, Machine]
    experiments: Mapping[str, ExperimentRecord]
    skipped: Mapping[str, str] = field(default_factory=dict)

    def experiment(self, experiment: str) -> ExperimentRecord:
        """The record of an experiment; `InputError`, with the known names, where the set lacks it."""
        try:
            return self.experiments[experiment]
        except KeyError:
            have = ", ".join(sorted(self.experiments)) or "nothing"
            raise InputError(
                f"{self.path}: no experiment {experiment!r} in this set (it holds: {have}); "
                f"capture it with `labcode capture {experiment} --set {self.name}`"
            ) from None

    def run(self, experiment: str, run: str) -> RunRecord:
        """The record of one run of an experiment; `InputError` where the set lacks it."""
        record = self.experiment(experiment)
        try:
            return record.runs[run]
        except KeyError:
            have = ", ".join(record.runs)
            raise InputError(f"{self.path / experiment}: no run {run!r} (there are: {have})") from None

    def absent(self, experiment: str) -> tuple[FileRecord, ...]:
        """The traces of a thin experiment that are not here; empty for a complete one."""
        record = self.experiment(experiment)
        if not record.thin:
            return ()
        folder = self.path / experiment
        return tuple(file for file in record.files if file.is_trace and not (folder / file.name).is_file())

    def stored(self, experiment: str, run: str, suffix: str) -> Path:
        """The path of a file in the set, still compressed and with its hash unchecked."""
        names = {run + suffix, run + suffix + _COMPRESSED} | (
            {run + columnar.SUFFIX} if suffix == ".sqlite" else set()
        )
        for file in self.run(experiment, run).files:
            if file.name in names:
                return self.path / experiment / file.name
        raise InputError(f"{self.path / experiment}: run {run!r} has no {suffix} file")

    def path_of(self, experiment: str, run: str, suffix: str = ".sqlite") -> Path:
        """The path of a run's file, checked against its hash and, if compressed, unpacked into the cache.

        ``suffix`` is ``.sqlite``, ``.ncu-rep``, ``.json`` or ``.clean.json``. Raises `InputError` where the
        file is missing, is not in this thin set, has changed since the capture, or cannot be unpacked.
        """
        stored = self.stored(experiment, run, suffix)
        if any(file.name == stored.name for file in self.absent(experiment)):
            raise InputError(
                f"{self.name}/{experiment}: its trace is not in this thin set; "
                "`labcode captures add ARCHIVE` brings it"
            )
        expected = next(f.sha256 for f in self.run(experiment, run).files if f.name == stored.name)
        if not stored.name.endswith(_COMPRESSED):
            check_hash(stored, expected)
            return stored

        def unpack(target: Path) -> None:
            check_hash(stored, expected)
            unpack_xz(stored, target)

        return cached(expected, suffix, unpack, most_bytes=unpack_limit(stored.stat().st_size))

    def record(self, experiment: str, run: str, *, clean: bool = False) -> dict[str, Any]:
        """What a program printed about its own run; with ``clean`` about the run without a profiler."""
        path = self.path_of(experiment, run, ".clean.json" if clean else ".json")
        loaded = load_json(path)
        if not isinstance(loaded, dict):
            raise InputError(f"{path}: not a run's record; capture the experiment again")
        return loaded

    def machine_of(self, experiment: str) -> Mapping[str, Any]:
        """The machine an experiment was captured on, as in the manifest: GPUs, driver, versions."""
        return self.machines[self.experiment(experiment).machine]


def sets_root() -> Path:
    """The folder of the capture sets: ``$LABCODE_SETS``, or ``captures/`` of the checkout."""
    root = os.environ.get("LABCODE_SETS")
    return Path(root) if root else repository_root() / "captures"


def current_set() -> str:
    """The name of the set the book is built around: ``$LABCODE_CAPTURES``, or the one that ships with it."""
    return os.environ.get("LABCODE_CAPTURES") or SHIPPED_SET


def list_sets() -> list[str]:
    """The names of the available sets, sorted."""
    root = sets_root()
    return sorted(p.parent.name for p in root.glob("*/manifest.json")) if root.is_dir() else []


def load_set(name: str | None = None) -> CaptureSet:
    """Open a set by name, by default the current one; `InputError` where it is missing or damaged."""
    name = name or current_set()
    folder = sets_root() / name
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        have = ", ".join(list_sets()) or "none"
        raise InputError(
            f"{folder}: no capture set of this name (there are: {have}); "
            f"`labcode capture --set {name}` makes one"
        )
    return _opened(plain_file(manifest, most_bytes=_LARGEST_JSON).read_bytes(), folder)


@lru_cache(maxsize=8)
def _opened(manifest: bytes, folder: Path) -> CaptureSet:
    """The set of a manifest; pages open the same one again and again."""
    return parse_manifest(_json(manifest, folder / "manifest.json"), folder)


def holder(name: str, experiment: str) -> CaptureSet:
    """The set to take an experiment from: the named one, else the shipped one, else any other that has it.

    A machine with one GPU cannot measure what needs two, so a book built around its set shows those pages
    with the shipped numbers. The same goes for an experiment whose traces are not here, or that was captured
    for an older version of the book (see `older_runs`). Where no set has the whole experiment, the named one
    is returned. A page never mixes machines within one experiment.
    """
    captures, names = load_set(name), list_sets()
    for other in sorted(names, key=lambda one: (one != name, one != SHIPPED_SET, one)):
        held = captures if other == name else load_set(other)
        if (
            experiment in held.experiments
            and not held.absent(experiment)
            and not older_runs(held, experiment)
        ):
            return held
    return captures


def older_runs(captures: CaptureSet, experiment: str) -> tuple[str, ...]:
    """The runs of an experiment that this set lacks and the shipped set has, because the book has grown."""
    if captures.name == SHIPPED_SET or SHIPPED_SET not in list_sets():
        return ()
    today = load_set(SHIPPED_SET).experiments.get(experiment)
    mine = captures.experiment(experiment).runs
    return tuple(run for run in today.runs if run not in mine) if today else ()


def parse_manifest(data: object, folder: Path) -> CaptureSet:
    """A manifest's JSON as records; `InputError` for a newer schema or a missing field."""
    where = folder / "manifest.json"
    if not isinstance(data, dict) or type(data.get("schema")) is not int:
        raise InputError(f"{where}: not a capture set's manifest")
    if data["schema"] > MANIFEST_SCHEMA:
        raise InputError(
            f"{where}: manifest schema {str(data['schema'])[:20]} is newer than this labcode knows "
            f"({MANIFEST_SCHEMA}); update labcode"
        )
    try:
        machines = {key: _machine(key, value) for key, value in _is(data, "machines", dict).items()}
        experiments = {key: _experiment(key, value) for key, value in _is(data, "experiments", dict).items()}
        for record in experiments.values():
            machines[record.machine]
        reasons = _is(data, "skipped", dict) if "skipped" in data else {}
        skipped = {_name(key): _text(reasons, key) for key in reasons}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"{where}: damaged manifest ({type(error).__name__}: {str(error)[:200]}); "
            "restore it from version control"
        ) from None
    held = (MappingProxyType(machines), MappingProxyType(experiments), MappingProxyType(skipped))
    return CaptureSet(folder.name, folder, *held)


def claims_path(set_name: str) -> Path:
    """The path of the file in which a set keeps the values of the book's claims."""
    return sets_root() / set_name / CLAIMS_FILE


def read_claims(path: Path) -> dict[str, Claim]:
    """The claims in a set's ``claims.json`` by ``page#key``; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        data: Any = load_json(path)
        claims = {key: Claim(**entry) for key, entry in data["claims"].items()}
        for one in claims.values():
            texts = (one.key, one.text, one.shown, one.bound)
            flags = {type(one.holds), type(one.host)}
            if not all(isinstance(text, str) for text in texts) or flags != {bool}:
                raise TypeError
            if one.value is not None:
                float(one.value)
        return claims
    except (InputError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path}: damaged; write it again with `python -m labcode book --update-claims`"
        ) from None


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def unpack_tar(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive that the lab itself packed.

    From Python 3.11.4, members that would land outside the folder are refused.
    """
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    tar.extractall(folder)


def unpack_xz(source: Path, target: Path) -> None:
    """Unpack ``source`` (xz) to ``target``, which is then complete, or after an error not there at all.

    A columnar export (`labcode.columnar`) becomes the SQLite file. Raises `InputError` for a file that is not
    in the .xz format, and for one that unpacks to more than `unpack_limit` allows.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with plain_file(source, most_bytes=_LARGEST_PACKED).open("rb") as raw, target.open("wb") as out:
            if raw.read(len(_XZ_MAGIC)) != _XZ_MAGIC:  # of zeros alone it would be told at their end
                raise lzma.LZMAError("it does not begin like an .xz file")
            raw.seek(0)
            left = limit = unpack_limit(source.stat().st_size)
            with lzma.open(raw) as packed:
                if packed.peek(len(columnar.MAGIC)).startswith(columnar.MAGIC):
                    columnar.unpack(packed, target, limit)
                    return
                while part := packed.read(1 << 20):
                    left -= len(part)
                    if left < 0:
                        raise endless(source, limit)
                    out.write(part)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, columnar.TooLargeError):
            raise endless(source, unpack_limit(source.stat().st_size)) from None
        if not isinstance(error, lzma.LZMAError | EOFError | columnar.UnreadableError):
            raise
        raise InputError(f"{source}: cannot be unpacked ({error}); fetch the file again") from None


def unpack_limit(packed_bytes: int) -> int:
    """How many bytes a packed file may unpack to: ``$LABCODE_LIMIT`` (in GiB), or a generous default.

    Raises `LabError` for a limit that is not a number.
    """
    return _limit() or max(_LEAST_LIMIT, _MOST_PACKED * packed_bytes)


def refuse_large(file: Path, size: int, most: int = _LARGEST_REPORT) -> None:
    """`InputError` for a file of more bytes than ``most`` or, where it is given, ``--limit``.

    By default for a report of nsys that takes more than ten seconds to read.
    """
    most = _limit() or most
    if size > most:
        raise InputError(
            f"{file}: {size / (1 << 30):.3g} GiB, more than the {most / (1 << 30):.3g} GiB that are read; if "
            f"you trust it and have the memory, labcode --limit {size / (1 << 30) + 1:.0f} … takes it"
        )


def _limit() -> int | None:
    """``$LABCODE_LIMIT`` in bytes; None where it is not set."""
    given = os.environ.get(LIMIT_VARIABLE)
    if not given:
        return None
    try:
        gib = float(given)
    except ValueError:
        gib = 0.0
    if not 0 < gib < 1 << 30:
        raise LabError(f"--limit {given[:40]}: no size; give GiB, such as 64")
    return int(gib * (1 << 30))


def endless(packed: Path, limit: int) -> InputError:
    """The error for a file that unpacks to more than ``limit`` bytes."""
    return InputError(
        f"{packed}: unpacks to more than {limit / (1 << 30):,.3g} GiB; if it is to be so large, put a higher "
        "limit before the command: labcode --limit 64 …"
    )


def unpacked(packed: Path, suffix: str) -> Path:
    """The unpacked content of an .xz file, in the user's cache; `InputError` as in `unpack_xz`."""
    most = unpack_limit(packed.stat().st_size)
    return cached(file_sha256(packed), suffix, lambda made: unpack_xz(packed, made), most_bytes=most)


@contextmanager
def kept_if_read(made: Path, source: Path) -> Iterator[Path]:
    """Remove ``made``, a file in the cache made from ``source``, if the block raises `InputError`."""
    try:
        yield made
    except InputError:
        if made != source:
            made.unlink(missing_ok=True)
        raise


def cached(key: str, suffix: str, make: Callable[[Path], object], *, most_bytes: int | None = None) -> Path:
    """The path of a file in the user's cache, which ``make`` writes once per ``key`` (hexadecimal).

    It lies in a folder that only the user can read, and its name holds the SHA-256 of its content. A file
    that does not match its name was changed by somebody else; it is discarded and made again. So is a file of
    more than ``most_bytes``, made under a higher limit.
    """
    folder = cache_folder() / f"unpacked-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise LabError(
            f"{folder}: not a folder of your own; remove it, or set LABCODE_CACHE to another folder"
        )
    folder.chmod(0o700)
    for found in folder.glob(f"{key}-*{suffix}"):
        with suppress(FileNotFoundError):  # another process threw it away
            small = most_bytes is None or found.stat().st_size <= most_bytes
            if small and found.name == f"{key}-{file_sha256(found)}{suffix}":
                return found
            found.unlink()
    with private_folder(folder) as work:
        made = work / f"made{suffix}"
        make(made)
        return made.replace(folder / f"{key}-{file_sha256(made)}{suffix}")


def check_hash(path: Path, expected: str) -> None:
    """`InputError` where a set's file is missing, only a pointer, or of another SHA-256."""
    if not path.is_file():
        raise InputError(f"{path}: missing from the capture set; restore it from version control")
    refuse_pointer(path, path.stat().st_size)
    if file_sha256(path) != expected:
        raise InputError(
            f"{path}: changed since it was captured (its SHA-256 is not the manifest's); "
            "restore or capture it again"
        )


def load_json(path: Path) -> object:
    """The JSON in a file of a set; `InputError` where it is not JSON, or larger or deeper than is read."""
    return _json(plain_file(path, most_bytes=_LARGEST_JSON).read_bytes(), path)


def _json(data: bytes, path: Path) -> object:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also numbers of more digits than Python reads
        raise InputError(f"{path}: not valid JSON ({error}); restore it from version control") from None


def _experiment(key: str, value: object) -> ExperimentRecord:
    _name(key)
    runs = {_name(run): _run(run, entry) for run, entry in _is(value, "runs", dict).items()}
    sources = _is(value, "sources", dict, list)
    if isinstance(sources, list):  # of the first schema, which had no digests
        _sources(value)
        sources = {}
    timed = _is(value, "timed", dict) if isinstance(value, dict) and "timed" in value else None
    return ExperimentRecord(
        id=key,
        title=_text(value, "title"),
        tool=_text(value, "tool"),
        machine=_text(value, "machine"),
        captured=_text(value, "captured"),
        sources=MappingProxyType({_inside(source): _text(sources, source) for source in sources}),
        wall_s=float(_is(value, "wall_s", int, float)),
        runs=MappingProxyType(runs),
        timed=TimedCode(_sources(timed), _text(timed, "digest")) if timed is not None else None,
        thin=bool(_is({"thin": False, **value}, "thin", bool)) if isinstance(value, dict) else False,
        shared_with=_texts(value, "shared_with")
        if isinstance(value, dict) and "shared_with" in value
        else (),
    )


def _sources(value: object) -> tuple[str, ...]:
    return tuple(map(_inside, _texts(value, "sources")))


def _inside(source: str) -> str:
    """A source, checked to be a path below the repository."""
    if PurePosixPath(source).is_absolute() or ".." in PurePosixPath(source).parts or "\0" in source:
        raise ValueError(f"source {source!r} lies outside of the repository")
    source.encode()
    return source


def _run(name: str, value: object) -> RunRecord:
    files = _is(value, "files", dict)
    records = [
        FileRecord(_plain(file), _text(entry, "sha256"), _is(entry, "bytes", int))
        for file, entry in files.items()
    ]
    argv, tool_args, warnings = (_texts(value, field) for field in ("argv", "tool_args", "warnings"))
    host_s = _is({"host_s": [], **value}, "host_s", list) if isinstance(value, dict) else []
    if not all(type(seconds) in (int, float) and 0 < seconds < math.inf for seconds in host_s):
        raise ValueError("host_s holds what is no time")
    return RunRecord(name, argv, tool_args, tuple(records), warnings, tuple(host_s))


def _machine(key: str, value: object) -> Machine:
    """A machine's record: what is not a list of GPUs is text, a number, or unknown."""
    if not isinstance(value, dict):
        raise TypeError(f"machine {key} is no object")
    gpus = _is(value, "gpus", list) if "gpus" in value else []
    for facts in ({k: v for k, v in value.items() if k != "gpus"}, *gpus):
        for fact in facts:
            _is(facts, fact, str, int, float, bool, type(None))
    if value.get("gpu_count") is not None:
        _is(value, "gpu_count", int)
    for gpu in gpus:
        _is({"name": None, **gpu}, "name", str, type(None))
    return cast(Machine, value)


def _is(value: object, field: str, *kinds: type) -> Any:
    """The field of an object, checked to be of one of these types, to be finite, and to be printable."""
    if not isinstance(value, dict):
        raise TypeError(f"no object where {field!r} should be")
    found = value[field]
    if type(found) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{field!r} is of type {type(found).__name__}, not {wanted}")
    if isinstance(found, str):
        found.encode()  # half a character of two is none
    if isinstance(found, int | float) and not abs(found) < 1e18:
        raise ValueError(f"{field!r} is no sensible number")
    return found


def _text(value: object, field: str) -> str:
    return str(_is(value, field, str))


def _texts(value: object, field: str) -> tuple[str, ...]:
    return tuple(_text({field: item}, field) for item in _is(value, field, list))


def _name(name: str) -> str:
    if not name.replace("_", "").replace("-", "").isalnum():
        raise LabError(f"{name!r} is not a name an experiment or run can have")
    return name


def _plain(name: str) -> str:
    if name != Path(name).name or name in ("", ".", "..") or "\0" in name:
        raise ValueError(f"file name {name!r}")
    name.encode()
    return name
