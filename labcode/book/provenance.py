"""Where a page's numbers come from: a capture set and an experiment in, its machine, date, freshness and
files out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcode import freshness, store
from labcode.book.values import NARROW_SPACE
from labcode.store import CaptureSet, ExperimentRecord

_SHORT_HASH = 12


@dataclass(frozen=True)
class CapturedFile:
    """A file of a set: the run it belongs to, where it lies, its size in bytes and SHA-256 as stored.

    ``here`` is false of a trace that a thin set names and does not hold.
    """

    run: str
    path: Path
    size_bytes: int
    sha256: str
    here: bool = True


@dataclass(frozen=True)
class Stamp:
    """The provenance of one experiment as printed.

    ``machine`` and ``how`` (tool, date, duration) are short phrases, ``warnings`` what the profiler said;
    ``timed`` is said of experiments that time the lab's own code.
    """

    experiment: str
    title: str
    machine: tuple[str, ...]
    how: tuple[str, ...]
    fresh: bool
    timed: str
    warnings: tuple[str, ...]
    files: tuple[CapturedFile, ...]


def stamp(captures: CaptureSet, experiment: str, wanted: str | None = None) -> Stamp:
    """The stamp of an experiment; `labcode.errors.InputError` when the set does not have it.

    ``wanted`` is the set the book is built around; the stamp says so when the experiment is from another one.
    """
    record = captures.experiment(experiment)
    machine = captures.machines[record.machine]
    absent = captures.absent(experiment)
    return Stamp(
        experiment=record.id,
        title=record.title,
        machine=machine_facts(machine),
        how=(
            *_borrowed(captures, experiment, wanted),
            *_tool(record, machine),
            _when(record),
            *_changed(record),
        ),
        fresh=freshness.is_fresh(record),
        timed=_timed(record),
        warnings=tuple(dict.fromkeys(text for run in record.runs.values() for text in run.warnings)),
        files=tuple(
            CapturedFile(
                run.name,
                captures.path / record.id / file.name,
                file.size_bytes,
                file.sha256,
                file not in absent,
            )
            for run in record.runs.values()
            for file in run.files
        ),
    )


def captured(captures: CaptureSet, experiment: str) -> tuple[str, str]:
    """On which GPU an experiment was captured, and on which day."""
    record = captures.experiment(experiment)
    return gpu_label(captures.machines[record.machine]), record.captured


def machine_facts(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """GPUs, driver and CUDA of a machine, as short phrases; what the manifest does not know is left out."""
    names = [gpu["name"] for gpu in machine.get("gpus", ()) if gpu.get("name")]
    count = int(machine.get("gpu_count") or len(names))
    facts = [f"{count} × {names[0]}"] if names else []
    for key, label in (("driver", "driver"), ("cuda", "CUDA")):
        if machine.get(key):
            facts.append(f"{label} {machine[key]}")
    return tuple(facts)


def gpu_label(machine: Mapping[str, Any]) -> str:
    """The name of a machine's GPU as people say it: “H100” for “NVIDIA H100 80GB HBM3”."""
    name = next((str(gpu["name"]) for gpu in machine.get("gpus", ()) if gpu.get("name")), "no GPU")
    return re.split(r"[ -](?:SXM|PCIe|PCIE|NVL|\d+ ?GB)", name.removeprefix("NVIDIA "))[0]


def set_labels() -> dict[str, str]:
    """What to call each set at hand: by its GPU and, where two sets have the same, by its name too."""
    machines = {name: store.load_set(name).machines for name in store.list_sets()}
    labels = {name: gpu_label(next(iter(found.values()), {})) for name, found in machines.items()}
    shared = [label for label in labels.values() if list(labels.values()).count(label) > 1]
    return {name: f"{label} ({name})" if label in shared else label for name, label in labels.items()}


def lacking(wanted: str, experiments: Iterable[str]) -> list[str]:
    """What a page says that shows experiments of another set than the one that the book is built around: why,
    in some sentences for each reason; none when the set has them all.
    """
    captures = store.load_set(wanted)
    thin, old, reasons, instead = [], [], dict[str, list[str]](), dict[str, None]()
    for name in experiments:
        if (taken := store.holder(wanted, name).name) == wanted:
            continue
        instead[taken] = None
        if name in captures.experiments and store.older_runs(captures, name):
            old.append(f"`{name}`")
        elif name in captures.experiments:
            thin.append(f"`{name}`")
        else:
            reasons.setdefault(captures.skipped.get(name, ""), []).append(f"`{name}`")
    said = []
    if thin:
        said += [
            f"The traces of {_listed(thin)} are not in this thin set;",
            "`labcode captures add ARCHIVE` brings them, where whoever measured it gave you an archive.",
            "Claims on them have the values recorded with the whole set.",
        ]
    if old:
        said.append(
            f"Set {wanted} has {_listed(old)} of an older version of the book, without runs of today's."
        )
    for why, names in reasons.items():
        said.append(f"Set {wanted} does not have {_listed(names)}" + (f" ({why})." if why else "."))
    if not said:
        return []
    labels = set_labels()
    return [*said, f"The page shows the {_listed([labels[name] for name in instead])} instead."]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def short_hash(sha256: str) -> str:
    """The first digits of a hash, enough to compare by eye."""
    return sha256[:_SHORT_HASH]


def _timed(record: ExperimentRecord) -> str:
    if record.timed is None:
        return ""
    changed = freshness.timed_code_changed(record)
    version = f"times version {short_hash(record.timed.digest)} of the lab's own readers"
    return f"{version}, which have changed since" if changed else f"{version}, today's"


def _tool(record: ExperimentRecord, machine: Mapping[str, Any]) -> tuple[str, ...]:
    names = {"nsys": "Nsight Systems", "ncu": "Nsight Compute", "torch": "torch"}
    version = machine.get(record.tool)
    return (f"{names[record.tool]} {version}",) if record.tool in names and version else ()


def _borrowed(captures: CaptureSet, experiment: str, wanted: str | None) -> tuple[str, ...]:
    if wanted in (None, captures.name):
        return ()
    own = store.load_set(wanted)
    thin = "traces " if experiment in own.experiments else ""
    if thin and (runs := store.older_runs(own, experiment)):
        thin = f"run{'s' * (len(runs) > 1)} {_listed(runs)} "
    return (f"{thin}not in set {wanted}: shown from set {captures.name}",)


def _changed(record: ExperimentRecord) -> tuple[str, ...]:
    """What changed in its sources since, and why the numbers still stand."""
    changes = freshness.changes_since(record)
    return tuple(f"{Path(change.source).name} has changed since: {change.why}" for change in changes)


def _when(record: ExperimentRecord) -> str:
    return f"captured {record.captured} in {record.wall_s:.0f}{NARROW_SPACE}s"
