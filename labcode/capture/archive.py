"""Carry captures between machines: experiments of a set in, one .tar out; and back, everything checked."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import IO, Any

from labcode import store
from labcode.capture import scan
from labcode.capture.filing import (
    MANIFEST,
    Staged,
    check_name,
    file_experiments,
    open_set,
    read_manifest,
    staging_folder,
)
from labcode.capture.privacy import Names
from labcode.errors import InputError, LabError, describe_os_error
from labcode.inputs import plain_file
from labcode.outputs import whole

_EXPERIMENT = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MEMBER = re.compile(
    rf"(?P<experiment>{_EXPERIMENT})/(?P<file>{_EXPERIMENT}(?:\.rank\d{{1,4}})?"
    r"(?:\.sqlite\.xz|\.ncu-rep\.xz|\.trace\.json\.gz|\.(?:averages|memory|power)\.json\.xz|\.clean\.json|\.json))"
)
_MOST_MEMBERS = 2000
_LARGEST_FILE = 64 << 20
_LARGEST_TOTAL = 512 << 20
_CHUNK = 1 << 20


def check_target(archive: Path) -> None:
    """`LabError` unless an archive can be written there: the folder exists and the name ends in .tar."""
    if archive.suffix != ".tar":
        raise LabError(f"{archive}: the archive's name must end in .tar")
    if not archive.parent.is_dir():
        raise LabError(f"{archive}: its folder does not exist; make it first")


def write(archive: Path, folder: Path, experiments: list[str]) -> int:
    """Write the named experiments of the set in ``folder`` into one tar; returns its size in bytes.

    Members are ``manifest.json`` (with these experiments and their machines only) and ``EXPERIMENT/FILE``;
    owners and times are neutral. The file appears whole or not at all.
    """
    manifest = read_manifest(folder)
    part = {name: manifest["experiments"][name] for name in experiments}
    used = {entry["machine"] for entry in part.values()}
    machines = {key: machine for key, machine in manifest["machines"].items() if key in used}
    text = json.dumps({**manifest, "machines": machines, "experiments": part}, indent=1, ensure_ascii=False)
    files = [
        f"{name}/{file}"
        for name, entry in part.items()
        for file in sorted(file for run in entry["runs"].values() for file in run["files"])
    ]
    reads = [folder / MANIFEST, *(folder / file for file in files)]
    with whole(archive, reads=reads) as made, tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
        about = tarfile.TarInfo(MANIFEST)
        about.size = len(text.encode())
        tar.addfile(neutral(about), io.BytesIO(text.encode()))
        for file in files:
            tar.add(folder / file, file, filter=neutral)
    return archive.stat().st_size


def add(
    archive: Path, root: Path | None = None, *, also: Names = (), review: list[str] | None = None
) -> list[str]:
    """Import an archive into the set it names, whole or not at all; ``root`` defaults to `store.sets_root`.

    ``also`` are names that nothing in it may hold. With a list for ``review`` nothing is imported: what
    cannot be told from harmless text goes there. Returns a line for each experiment imported. Raises
    `InputError` for an archive that is damaged, holds
    anything but the files its manifest lists, or whose files are not what the manifest says.
    """
    try:
        with tarfile.open(plain_file(archive), "r:") as tar:
            members = _members(archive, tar)
            manifest = _manifest(archive, tar, members)
            text = json.dumps(manifest, ensure_ascii=False).encode(errors="replace")
            scan.refuse_private(
                scan.json_texts(text), also, f"{archive}: {MANIFEST} holds something private", InputError
            )
            folder = (root or store.sets_root()) / manifest["set"]
            if archive.resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{archive}: lies in the set that it would change; move it elsewhere first")
            captures = store.parse_manifest(manifest, folder)
            listed = {
                f"{e}/{f.name}"
                for e, r in captures.experiments.items()
                for run in r.runs.values()
                for f in run.files
            }
            _compare(archive, set(members) - {MANIFEST}, listed)
            with open_set(folder) as held:
                staged = []
                for name, entry in manifest["experiments"].items():
                    place = staging_folder(folder, name)
                    files = {k: v for run in entry["runs"].values() for k, v in run["files"].items()}
                    for file, expected in files.items():
                        _extract(archive, tar, members[f"{name}/{file}"], place / file, expected)
                        where = f"{archive}: {name}/{file}"
                        content = scan.look_into(place / file, where, also)
                        if content.private:
                            private = "; ".join(content.private)
                            raise InputError(f"{where} holds something private: {private}; refused")
                        if review is not None:
                            review += [f"{name}/{file}: {line}" for line in content.review]
                    staged.append(Staged(name, place, entry, manifest["machines"][entry["machine"]]))
                if review is not None:
                    for item in staged:
                        shutil.rmtree(item.folder)
                    return []
                known = set(held["experiments"])
                file_experiments(folder, held, staged)
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{archive}: not a whole tar archive ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(describe_os_error(error)) from None
    return [f"{folder.name}/{item.id}: {'replaced' if item.id in known else 'added'}" for item in staged]


def neutral(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """A tar member without its owner, time and mode."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info


def _members(archive: Path, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    found: dict[str, tarfile.TarInfo] = {}
    total = 0
    for info in tar:
        if info.isdir() and re.fullmatch(_EXPERIMENT, info.name):
            continue
        if not info.isreg() or info.issparse():
            raise InputError(f"{archive}: {info.name!r} is not a plain file; refused")
        if info.name != MANIFEST and not _MEMBER.fullmatch(info.name):
            raise InputError(f"{archive}: {info.name!r} is no name of a captured file; refused")
        if info.name in found:
            raise InputError(f"{archive}: {info.name!r} is in it twice; refused")
        found[info.name] = info
        total += info.size
        if len(found) > _MOST_MEMBERS or info.size > _LARGEST_FILE or total > _LARGEST_TOTAL:
            raise InputError(
                f"{archive}: too large at {info.name!r} (limits: {_LARGEST_FILE >> 20} MiB a file); refused"
            )
    return found


def _manifest(archive: Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> dict[str, Any]:
    if MANIFEST not in members:
        raise InputError(f"{archive}: has no {MANIFEST}; give a file written by `labcode capture --archive`")
    try:
        manifest = json.loads(_open(tar, members[MANIFEST]).read())
        name = check_name(manifest["set"])
        store.parse_manifest(manifest, Path(name))
        for experiment in manifest["experiments"]:
            check_name(experiment, "captured experiment")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{archive}: its manifest is damaged ({type(error).__name__}: {error}); fetch it again"
        ) from None
    if not manifest["experiments"]:
        raise InputError(f"{archive}: holds no experiments; nothing to import")
    return dict(manifest)


def _compare(archive: Path, found: set[str], listed: set[str]) -> None:
    if found - listed:
        raise InputError(
            f"{archive}: holds {min(found - listed)!r}, which its manifest does not list; refused"
        )
    if listed - found:
        raise InputError(
            f"{archive}: lacks {min(listed - found)!r}, which its manifest lists; fetch it again"
        )


def _open(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    handle = tar.extractfile(info)
    assert handle is not None
    return handle


def _extract(
    archive: Path, tar: tarfile.TarFile, info: tarfile.TarInfo, target: Path, expected: dict[str, Any]
) -> None:
    with _open(tar, info) as source, target.open("xb") as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)
    if info.size != expected["bytes"] or store.file_sha256(target) != expected["sha256"]:
        raise InputError(f"{archive}: {info.name!r} is not the file its manifest describes; fetch it again")
