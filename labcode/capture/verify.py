"""Is a capture set whole, fresh and fit to publish? A set's name in, a finding for each fault out.

`render` lists the sets at hand; `restamp` writes into a set where the sources of its captures lie today.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rich.console import Console

from labcode import columnar, store
from labcode.capture import catalogue, scan
from labcode.capture.experiment import GPUS, Experiment
from labcode.capture.filing import MANIFEST, open_set, write_json
from labcode.capture.privacy import Names
from labcode.errors import InputError, LabError
from labcode.freshness import as_of_today, is_fresh, place_of, source_digests
from labcode.hardware import health
from labcode.show import byte_text
from labcode.show.terminal import escape
from labcode.store import CaptureSet, ExperimentRecord
from labcode.workloads import located

LARGEST_SET = 32 << 20  # bytes; the whole repository must stay under 44 MiB
LARGEST_FILE = 4 << 20
OTHER_FILES = ("claims.json",)  # what the book keeps in a set beside its manifest
_VERSIONS = {"driver": "driver", "CUDA": "cuda", "nsys": "nsys"}
_SUFFIXES = (
    columnar.SUFFIX,
    ".sqlite.xz",
    ".ncu-rep.xz",
    ".trace.json.gz",
    ".json.xz",
    ".clean.json",
    ".json",
)


@dataclass(frozen=True)
class Finding:
    """Something wrong with a set: where (``experiment/file``), what kind, in words.

    ``kind`` is ``missing``, ``changed``, ``stray``, ``stale``, ``damaged``, ``private`` or ``large``.
    """

    where: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.text}"


def verify(set_name: str, *, also: Names = (), review: list[str] | None = None) -> list[Finding]:
    """Check a set: files there and unchanged, none stray, sources as they were, nothing private, none large.

    A thin set may lack the traces that its manifest allows to be elsewhere (see `lacks`). ``also`` are names
    that nothing may hold, as are this machine's own; ``review`` gets a line for each thing that people must
    judge. Raises `InputError` when the set is missing or its manifest is damaged.
    """
    captures = store.load_set(set_name)
    doubts = [] if review is None else review
    also = (*also, *scan.own_names())
    findings = [*_stray(captures)]
    harmless = set[str]()
    for own in (MANIFEST, *OTHER_FILES):
        if (captures.path / own).is_file():
            findings += _private(captures.path / own, own, also, doubts, harmless)
    total = 0
    findings += _undated(captures)
    for experiment, record in captures.experiments.items():
        if record.sources and (why := outdated(experiment, record)):
            findings.append(Finding(experiment, "stale", f"{why}; {_advice(captures.name, experiment)}"))
        absent = captures.absent(experiment)
        for file in record.files:
            if file in absent:
                continue
            total += file.size_bytes
            path, where = captures.path / experiment / file.name, f"{experiment}/{file.name}"
            wrong = [*_file(path, where, file)]
            if not any(finding.kind in ("missing", "changed") for finding in wrong):
                wrong += _private(path, where, also, doubts, harmless)
            findings += wrong
    if total > LARGEST_SET:
        findings.append(
            Finding(
                captures.name, "large", f"{total >> 20} MiB, more than {LARGEST_SET >> 20}; trim its runs"
            )
        )
    return findings


def lacks(captures: CaptureSet) -> str:
    """What of a thin set is elsewhere, in words; nothing of a whole one."""
    absent = {name: found for name in captures.experiments if (found := captures.absent(name))}
    size = sum(file.size_bytes for files in absent.values() for file in files)
    return (
        f"thin: traces of {len(absent)} experiments ({size:,} bytes) are not here; "
        "`labcode captures add ARCHIVE` brings them"
        if absent
        else ""
    )


def disturbed(captures: CaptureSet) -> Iterator[str]:
    """A line for each experiment with runs beside which a machine was slower than at its best in the set."""
    for key in captures.machines:
        here = [record for record in captures.experiments.values() if record.machine == key]
        timed = [(record.id, run) for record in here for run in record.runs.values() if run.host_s]
        best_s = min((seconds for _, run in timed for seconds in run.host_s), default=0.0)
        for name, runs in groupby(timed, key=itemgetter(0)):
            slow = {run.name: told for _, run in runs for told in health.slowed(run.host_s, best_s)}
            if slow:
                said = ", ".join(f"{run}: {told}" for run, told in slow.items())
                yield f"{name}: disturbed: {said}; {_advice(captures.name, name)}"


def outdated(name: str, record: ExperimentRecord) -> str:
    """Why an experiment of a set is not what the lab would capture today, in words; nothing where it is.

    Pages show it all the same, as long as it has the runs that they ask for.
    """
    experiment = catalogue.EXPERIMENTS.get(name)
    if experiment is None:
        today = [other.id for other in catalogue.EXPERIMENTS.values() if _same_runs(other, record)]
        renamed = f" ({today[0]} has its runs and sources)" if today else ""
        return f"the catalogue has no such experiment any more{renamed}"
    if not record.sources:
        return "its sources have no digests, so nothing says whether it is fresh"
    names = {run.name for run in experiment.runs}
    odd = [
        f"{words} {', '.join(sorted(runs))}"
        for words, runs in (
            ("it lacks the run", names - set(record.runs)),
            ("the catalogue no longer has its run", set(record.runs) - names),
        )
        if runs
    ]
    if odd:
        return " and ".join(odd)
    if not is_fresh(record):
        return "its sources changed since it was captured"
    if not _same_runs(experiment, record):
        return "the catalogue's runs or sources of it changed since it was captured"
    return ""


def render(console: Console) -> None:
    """List the capture sets at hand: their machines, experiments, what is stale in them and what not here."""
    names = store.list_sets()
    if not names:
        console.print(f"no capture sets in {store.sets_root()}; `labcode capture --set NAME` makes one")
    for name in names:
        captures = store.load_set(name)
        console.print(
            f"[bold]{name}[/bold]" + ("  (ships with the book)" if name == store.SHIPPED_SET else "")
        )
        for key, machine in captures.machines.items():
            gpus = machine.get("gpus") or [{}]
            about = f"{machine.get('gpu_count', 0)} × {gpus[0].get('name', 'no GPU')}"
            versions = ", ".join(f"{title} {machine.get(of)}" for title, of in _VERSIONS.items())
            host = "".join(f", {text}" for text in _host(machine, gpus[0]) if text)
            console.print(
                f"  {key}: {about}, {versions}{host}", highlight=False, markup=False, soft_wrap=True
            )
        for record in captures.experiments.values():
            size = sum(file.size_bytes for file in record.files)
            absent = sum(file.size_bytes for file in captures.absent(record.id))
            why = outdated(record.id, record)
            state = f"[yellow]stale[/yellow]: {escape(why)}" if why else "fresh"
            runs = f"{len(record.runs)} run" + "s" * (len(record.runs) > 1)
            about = f"{runs}, {byte_text(size)}, captured {record.captured}"
            on = escape(f"  {record.id}: {about} on {record.machine}")
            thin = f", thin: {byte_text(absent)} not here" if absent else ""
            console.print(f"{on}{thin}, {state}", highlight=False, soft_wrap=True)
        missing = [n for n in catalogue.EXPERIMENTS if n not in {**captures.experiments, **captures.skipped}]
        for line in (
            *(f"{name}: skipped, {reason}" for name, reason in captures.skipped.items()),
            lacks(captures),
            *(str(finding) for finding in _undated(captures)),
            f"not captured in this set: {', '.join(missing)}" if missing else "",
        ):
            if line:
                console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)


def _host(machine: store.Machine, gpu: Mapping[str, store.Fact]) -> tuple[str, ...]:
    """What a manifest knows of a machine's host, in short; nothing of a field that it lacks."""
    link, width = gpu.get("pcie_generation"), gpu.get("pcie_width")
    return (
        f"PCIe {link} × {width}" if link and width else "",
        str(machine.get("cpu") or ""),
        f"{machine['cpu_count']} CPUs" if machine.get("cpu_count") else "",
        str(machine.get("cpu_governor") or ""),
    )


def _undated(captures: CaptureSet) -> Iterator[Finding]:
    """One finding for all experiments that manifests of the first schema list, without digests of sources."""
    without = [name for name, record in captures.experiments.items() if not record.sources]
    if without:
        some = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
        yield Finding(
            MANIFEST,
            "stale",
            f"of the first schema, without digests of sources: nothing says whether {some} "
            f"{'is' if len(without) == 1 else 'are'} fresh; capture again what pages should vouch for",
        )


def _advice(set_name: str, name: str) -> str:
    known = name in catalogue.EXPERIMENTS
    return (
        f"capture it again with `labcode capture {name} --set {set_name}`"
        if known
        else ("no page shows it, the rest of the set is used")
    )


def _file(path: Path, where: str, expected: store.FileRecord) -> Iterator[Finding]:
    if not path.is_file():
        yield Finding(where, "missing", "restore it from version control, or capture the experiment again")
        return
    if path.stat().st_size != expected.size_bytes or store.file_sha256(path) != expected.sha256:
        yield Finding(
            where, "changed", "its SHA-256 is not the manifest's; restore it or capture the experiment again"
        )
        return
    if expected.size_bytes > LARGEST_FILE:
        yield Finding(
            where,
            "large",
            f"{expected.size_bytes >> 20} MiB, more than {LARGEST_FILE >> 20}; use fewer steps",
        )
    if not where.endswith(_SUFFIXES):
        yield Finding(where, "stray", f"not one of the kinds a set holds ({', '.join(_SUFFIXES)})")


def _private(path: Path, where: str, also: Names, review: list[str], harmless: set[str]) -> Iterator[Finding]:
    """Unpack a file and look into it: it must be what its name says, and hold nothing private."""
    try:
        content = scan.look_into(path, where, also, harmless)
    except LabError as error:
        name = rf"(?:{re.escape(path.name.removesuffix('.xz'))}|{scan.UNPACKED})"
        said = re.sub(rf"^{re.escape(where)} |\S*/{name}: ", "", str(error))
        yield Finding(where, "damaged", said)
        return
    yield from (Finding(where, "private", text) for text in content.private)
    review += [f"{where}: {line}" for line in content.review]


def _stray(captures: CaptureSet) -> Iterator[Finding]:
    """Files and folders that the manifest does not know; leftovers of interrupted captures."""
    known = {f"{record.id}/{file.name}" for record in captures.experiments.values() for file in record.files}
    for path in sorted(captures.path.rglob("*")):
        name = path.relative_to(captures.path).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink():
            yield Finding(name, "stray", "a link; a set holds plain files only")
        elif name.startswith(".") or "/." in name:
            yield Finding(
                name,
                "stray",
                "left by an interrupted capture; the next `labcode capture` or `captures add` mends the set",
            )
        elif name not in known and name not in (MANIFEST, *OTHER_FILES):
            yield Finding(name, "stray", "not in the manifest; remove it")


def _same_runs(experiment: Experiment, record: ExperimentRecord) -> bool:
    """Whether an experiment's runs, commands and options are those of a capture, and its own ``sources``.

    What follows from what it is made of, follows from sources that the capture has itself (see `is_fresh`).
    """
    try:
        today = source_digests(experiment.sources, store.repository_root())
    except InputError:
        return False
    named, held = set(today.values()), set(as_of_today(record).values())
    if not (named <= held if experiment.made_of else named == held):
        return False
    if {run.name for run in experiment.runs} != set(record.runs):
        return False
    for run in experiment.runs:
        captured = record.runs[run.name]
        wanted, made = experiment.argv(run), _argv_today(captured.argv, record.sources)
        if len(wanted) != len(made):
            return False
        if any(mine not in (theirs, GPUS) for mine, theirs in zip(wanted, made, strict=True)):
            return False
        if captured.tool_args != experiment.options(run):
            return False
    return True


def _argv_today(argv: Sequence[str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """A captured command with its module's name of today, where that file moved and means the same.

    What is named as a program of `labcode.workloads` is found by that name wherever it lies.
    """
    root = store.repository_root()
    moved = {
        _module_of(path): _module_of(place_of(path, digest, root) or path)
        for path, digest in sources.items()
        if _module_of(path) in argv and not located(_module_of(path))
    }
    return tuple(moved.get(word, word) for word in argv)


def _module_of(source: str) -> str:
    return source.removesuffix(".py").replace("/", ".")


def restamp(set_name: str) -> Iterator[str]:
    """Check every capture of a set by the digests it has and name its sources anew; say what was done.

    Raises `InputError` when the set is missing or its manifest is damaged.
    """
    captures, root = store.load_set(set_name), store.repository_root()
    with open_set(captures.path) as manifest:
        for name, record in captures.experiments.items():
            today = as_of_today(record, root)
            places = {label: place_of(label, digest, root) for label, digest in today.items()}
            if not places or not all(places.values()):
                yield f"{name}: stale, left as it is"
            elif any(label != place for label, place in places.items()):
                entry = manifest["experiments"][name]
                named = {place: record.sources[label] for label, place in places.items()}
                entry["sources"] = dict(sorted(named.items()))
                for run in entry["runs"].values():
                    run["argv"] = list(_argv_today(run["argv"], record.sources))
                yield f"{name}: named anew"
        write_json(captures.path / MANIFEST, manifest)
