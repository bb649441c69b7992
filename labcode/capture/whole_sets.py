"""Sets as wholes: several made one, what the catalogue lost taken out, one written with its hashes.

These are commands of `labcode captures`, where sets have always been listed, verified, and packed: a second
home for the same things would only have to be found.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from labcode import store
from labcode.capture import archive as archives
from labcode.capture import catalogue
from labcode.capture.filing import (
    MANIFEST,
    Staged,
    file_experiments,
    open_set,
    read_manifest,
    staging_folder,
    write_json,
)
from labcode.capture.verify import outdated
from labcode.errors import LabError
from labcode.outputs import whole
from labcode.show import byte_text
from labcode.store import CaptureSet, ExperimentRecord

HASHES = ".sha256"  # beside an exported archive, as `sha256sum --check` reads it


def merge(into: str, others: Sequence[str], *, prefer: str = "") -> list[str]:
    """File the experiments of other sets into a set of the same model of GPU; returns a line for each.

    Where sets hold different captures of one experiment that is a conflict: all are named, and nothing is
    merged unless ``prefer`` names the set that counts. The other sets stay as they are. Raises `LabError`,
    also for a file that is not what its manifest says; then the set is as it was.
    """
    sets = [store.load_set(name) for name in dict.fromkeys((into, *others))]
    if len(sets) < 2:
        raise LabError(f"{into}: name another set to merge into it")
    _refuse_mixed(sets)
    if prefer and prefer not in (captures.name for captures in sets):
        raise LabError(f"--prefer {prefer}: none of the sets that are merged")
    chosen, conflicts = _choose(sets, prefer)
    if conflicts:
        raise LabError(
            f"{into}: captured differently in several sets, name the one that counts with --prefer SET: "
            + "; ".join(conflicts)
        )
    lines = []
    with open_set(sets[0].path) as manifest:
        staged = []
        for name, source in chosen.items():
            if source is sets[0]:
                continue
            staged.append(_staged(source, name, sets[0].path))
            done = "replaced" if name in sets[0].experiments else "added"
            lines.append(f"{into}/{name}: {done} from {source.name}")
        if staged:
            file_experiments(sets[0].path, manifest, staged)
    return lines or [f"{into}: holds all of {', '.join(others)} already"]


def prune(set_name: str, *, archive: Path | None = None, drop: bool = False) -> list[str]:
    """Take experiments that the catalogue no longer has out of a set; returns what was done, in lines.

    They go into ``archive``, or nowhere with ``drop``; `LabError` without either, and nothing is changed.
    """
    captures = store.load_set(set_name)
    gone = [name for name in captures.experiments if name not in catalogue.EXPERIMENTS]
    idle = [name for name in captures.skipped if name not in catalogue.EXPERIMENTS]
    if not (gone or idle):
        return [f"{set_name}: the catalogue has all of its experiments"]
    size = byte_text(sum(file.size_bytes for name in gone for file in captures.experiment(name).files))
    if gone and archive is None and not drop:
        raise LabError(
            f"{set_name}: {', '.join(gone)} ({size}) would be lost; name an archive to write with "
            "--archive FILE, or drop them with --drop"
        )
    lines = []
    with open_set(captures.path) as manifest:
        if archive is not None and gone:
            if archive.exists():
                raise LabError(f"{archive}: there already; choose another name")
            archives.check_target(archive)
            archives.write(archive, captures.path, gone)
            lines.append(f"{archive}: {byte_text(archive.stat().st_size, binary=True)}")
        for name in gone:
            del manifest["experiments"][name]
        for name in idle:
            del manifest["skipped"][name]
        used = {entry["machine"] for entry in manifest["experiments"].values()}
        manifest["machines"] = {key: about for key, about in manifest["machines"].items() if key in used}
        write_json(captures.path / MANIFEST, manifest)
        for name in gone:
            place = staging_folder(captures.path, name)
            place.rmdir()
            (captures.path / name).rename(place)  # whoever opens the set for writing clears it away
    said = (f"{set_name}/{name}: taken out" for name in gone)
    return [*lines, *said, *(f"{set_name}/{name}: no longer noted as skipped" for name in idle)]


def export(set_name: str, archive: Path) -> list[str]:
    """Write a set whole, with the values of its claims, and its hashes beside; returns lines on both files.

    `labcode captures add` takes it. The same set gives the same bytes. Raises `LabError` where a file is
    missing, is in another archive, or is not what the manifest says.
    """
    captures = store.load_set(set_name)
    archives.check_target(archive)
    archives.write(archive, captures.path, captures.experiments, claims=True)
    hashes = archive.with_name(archive.name + HASHES)
    with whole(hashes) as part:
        part.write_text(f"{store.file_sha256(archive)}  {archive.name}\n", encoding="utf-8")
    size = byte_text(archive.stat().st_size, binary=True)
    return [f"{archive}: {len(captures.experiments)} experiments, {size}", f"{hashes}: its SHA-256"]


def _refuse_mixed(sets: Sequence[CaptureSet]) -> None:
    models = {captures.name: ", ".join(sorted(archives.gpus_of(captures))) or "no GPU" for captures in sets}
    if len(set(models.values())) > 1:
        told = "; ".join(f"{name} on {model}" for name, model in models.items())
        raise LabError(f"sets of different GPUs stay apart: {told}; pages compare them as they are")


def _choose(sets: Sequence[CaptureSet], prefer: str) -> tuple[dict[str, CaptureSet], list[str]]:
    """Of each experiment the set to take it from, and the conflicts in words."""
    chosen: dict[str, CaptureSet] = {}
    conflicts = []
    for name in dict.fromkeys(name for captures in sets for name in captures.experiments):
        holders = [captures for captures in sets if name in captures.experiments]
        liked = [captures for captures in holders if captures.name == prefer]
        if len({_content(captures.experiments[name]) for captures in holders}) == 1:
            chosen[name] = min(holders, key=lambda captures: bool(captures.absent(name)))  # a whole one
        elif liked:
            chosen[name] = liked[0]
        else:
            conflicts.append(f"{name} ({', '.join(_told(captures, name) for captures in holders)})")
    return chosen, conflicts


def _told(captures: CaptureSet, name: str) -> str:
    record = captures.experiments[name]
    return f"{captures.name}: {record.captured}, {'stale' if outdated(name, record) else 'fresh'}"


def _content(record: ExperimentRecord) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((file.name, file.sha256) for file in record.files))


def _staged(source: CaptureSet, name: str, target: Path) -> Staged:
    """A copy of an experiment, each file checked, in the set that it goes to."""
    record = source.experiments[name]
    place, absent = staging_folder(target, name), source.absent(name)
    for file in (file for file in record.files if file not in absent):
        store.check_hash(source.path / name / file.name, file.sha256)
        shutil.copyfile(source.path / name / file.name, place / file.name)
    entry = read_manifest(source.path)["experiments"][name]
    return Staged(name, place, entry, source.machines[record.machine])
