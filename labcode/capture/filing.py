"""Put captured experiments into a set: staged folders in, the set changed whole or not at all.

A set changes in four steps: the old folder of an experiment is renamed aside (``.old-ID``), the new one
renamed into its place with a marker file inside (``.filing.json``, its manifest entry), the manifest
replaced, the leftovers removed. Whoever opens the set for writing repairs what a crash between two steps
left: with the new manifest in place the filing is completed, without it undone.
"""

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from labcode import columnar
from labcode.capture.scrub import compress
from labcode.errors import LabError, describe_os_error
from labcode.outputs import WORK, whole
from labcode.store import (
    MANIFEST_SCHEMA,
    FileEntry,
    Machine,
    Made,
    Manifest,
    file_sha256,
    load_json,
    parse_manifest,
)

MANIFEST = "manifest.json"
LARGEST_PLAIN = 24 << 10  # bytes of a record that is filed as it is; larger ones are compressed
STAGING, OLD, MARKER = ".staging-", ".old-", ".filing.json"
_NUMBERS = re.compile(r"(?<=\[)\n\s*[-\d][-+\d.eE,\s]*(?=\])")  # a string has no line break
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Staged:
    """An experiment ready to be filed: its folder, its manifest entry, the machine it was captured on."""

    id: str
    folder: Path
    entry: Made
    machine: Machine


def check_name(name: str, what: str = "capture set") -> str:
    """``name`` itself when a set or experiment can have it, else `LabError`."""
    if not _NAME.fullmatch(name):
        raise LabError(f"{name!r}: not a name for a {what}; use letters, digits, - and _")
    return name


@contextmanager
def open_set(folder: Path) -> Iterator[Manifest]:
    """Hold a set's folder for writing and yield its manifest (a new one for a new set).

    The folder is made when missing, and removed again when nothing was filed in it. What an earlier crash
    left is repaired first. Raises `LabError` when another process is writing to the set, and for a folder
    without permission.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise LabError(describe_os_error(error)) from None
    try:
        _lock(handle, folder)
        try:
            if not os.access(folder, os.W_OK):
                raise LabError(
                    f"{folder}: no permission to write here; change its mode or choose another set"
                )
            repair(folder)
            _clear(folder)
            yield read_manifest(folder)
        finally:
            _clear(folder)
            with suppress(OSError):
                folder.rmdir()  # only an empty folder goes
    finally:
        os.close(handle)


def read_manifest(folder: Path) -> Manifest:
    """A set's manifest as JSON, checked; that of an empty set when there is none."""
    path = folder / MANIFEST
    if not path.exists():
        return {"schema": MANIFEST_SCHEMA, "set": folder.name, "machines": {}, "experiments": {}}
    manifest = load_json(path)
    parse_manifest(manifest, folder)
    return cast(Manifest, manifest)


def file_experiments(folder: Path, manifest: Manifest, staged: list[Staged]) -> None:
    """File staged experiments into the set, all or none; ``manifest`` is brought up to date with them."""
    updated = merged(manifest, staged)
    for item in staged:
        entry = updated["experiments"][item.id]
        (item.folder / MARKER).write_text(json.dumps(entry), encoding="utf-8")
    try:
        for item in staged:
            place = folder / item.id
            if place.exists():
                place.rename(folder / f"{OLD}{item.id}")
            item.folder.rename(place)
        write_json(folder / MANIFEST, updated)
    except BaseException:
        repair(folder)
        raise
    repair(folder)
    manifest.pop("skipped", None)
    manifest.update(updated)


def merged(manifest: Manifest, staged: list[Staged]) -> Manifest:
    """A manifest with the staged experiments in it, and only the machines that experiments point to."""
    machines = dict(manifest["machines"])
    experiments = dict(manifest["experiments"])
    for item in staged:
        same = [key for key, machine in machines.items() if machine == item.machine]
        key = (
            same[0]
            if same
            else next(k for i in range(1, len(machines) + 2) if (k := f"m{i}") not in machines)
        )
        machines[key] = item.machine
        experiments[item.id] = {**item.entry, "machine": key}
    used = {entry["machine"] for entry in experiments.values()}
    skipped = {n: why for n, why in manifest.get("skipped", {}).items() if n not in experiments}
    found: Manifest = {
        **manifest,
        "machines": {key: machine for key, machine in machines.items() if key in used},
        "experiments": dict(sorted(experiments.items())),
    }
    found.pop("skipped", None)
    return {**found, "skipped": skipped} if skipped else found


def repair(folder: Path) -> list[str]:
    """Complete or undo what an interrupted filing left in a set; returns a line for each thing done."""
    if not folder.is_dir():
        return []
    done = []
    manifest = read_manifest(folder)
    for marker in sorted(folder.glob(f"*/{MARKER}")):
        place = marker.parent
        if place.name.startswith("."):
            continue
        old = folder / f"{OLD}{place.name}"
        if _same_entry(marker, manifest["experiments"].get(place.name)):
            shutil.rmtree(old, ignore_errors=True)
            marker.unlink()
            done.append(f"{place.name}: filing completed")
        else:
            shutil.rmtree(place)
            done.append(f"{place.name}: unfinished filing undone")
    for old in sorted(folder.glob(f"{OLD}*")):
        place = folder / old.name.removeprefix(OLD)
        if place.exists():
            shutil.rmtree(old)
        else:
            old.rename(place)
    return done


def staging_folder(folder: Path, experiment: str) -> Path:
    """A new, empty folder inside the set to make an experiment in."""
    path = folder / f"{STAGING}{experiment}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def packed(folder: Path, names: list[str]) -> list[str]:
    """Compress the large records among a run's files; the names that the files have afterwards."""
    found = []
    for name in names:
        path = folder / name
        if name.endswith(".json") and path.stat().st_size > LARGEST_PLAIN:
            compress(path, folder / f"{name}.xz")
            path.unlink()
            name += ".xz"
        found.append(name)
    return found


def file_export(path: Path) -> Path:
    """Compress an export by columns, or as it is where columns would not give all of it back."""
    target = path.with_name(path.name.removesuffix(".sqlite") + columnar.SUFFIX)
    try:
        columnar.pack(path, target)
    except (ValueError, OverflowError, sqlite3.Error):
        target.unlink(missing_ok=True)
        target = path.with_name(f"{path.name}.xz")
        compress(path, target)
    path.unlink()
    return target


def files_record(folder: Path, names: list[str]) -> dict[str, FileEntry]:
    """The manifest's record of files: name → SHA-256 and size in bytes."""
    return {
        name: {"sha256": file_sha256(folder / name), "bytes": (folder / name).stat().st_size}
        for name in names
    }


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically: either the whole new file is there afterwards or the old one.

    Lists of numbers are on one line each.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False)
    text = _NUMBERS.sub(lambda found: " ".join(found[0].split()), text)
    with whole(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _lock(handle: int, folder: Path) -> None:
    """Lock a folder until ``handle`` is closed; a file system without locks is used without."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(
            f"{folder}: another `labcode capture` is writing to this set, or one of `labcode captures`; "
            "wait for it to end"
        ) from None
    except OSError:
        return


def _clear(folder: Path) -> None:
    """Remove what never became part of the set."""
    for left in (*folder.glob(f"{STAGING}*"), *folder.glob(f"{WORK}*")):
        shutil.rmtree(left, ignore_errors=True)


def _same_entry(marker: Path, entry: object) -> bool:
    try:
        return bool(json.loads(marker.read_text(encoding="utf-8")) == entry)
    except (OSError, ValueError):
        return False
