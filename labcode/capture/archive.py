"""Carry captures between machines: experiments of a set in, .tar files out; and back, everything checked.

`thin` leaves of a set what is small, and only what an archive holds goes.
"""

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    write_json,
)
from labcode.capture.privacy import Names
from labcode.capture.verify import outdated
from labcode.errors import InputError, LabError, describe_os_error, nearest
from labcode.inputs import plain_file
from labcode.outputs import whole
from labcode.show import byte_text

_EXPERIMENT = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MEMBER = re.compile(
    rf"(?P<experiment>{_EXPERIMENT})/(?P<file>{_EXPERIMENT}(?:\.rank\d{{1,4}})?"
    r"(?:\.nsys\.xz|\.sqlite\.xz|\.ncu-rep\.xz|\.trace\.json\.gz|\.(?:averages|memory|power)\.json\.xz"
    r"|(?:\.clean)?\.json(?:\.xz)?))"
)
_MOST_MEMBERS = 2000
_LARGEST_FILE = 64 << 20
_LARGEST_TOTAL = 512 << 20
_TAR_BLOCK, _TAR_RECORD = 512, 10_240


@dataclass(frozen=True)
class _Archive:
    """An archive opened for reading: its members by name, its manifest, what that says, its files' hashes."""

    path: Path
    tar: tarfile.TarFile
    members: Mapping[str, tarfile.TarInfo]
    manifest: store.Manifest
    captures: store.CaptureSet
    sha256: Mapping[str, str]


def check_target(archive: Path) -> None:
    """`LabError` unless an archive can be written there: the folder exists and the name ends in .tar."""
    if archive.suffix != ".tar":
        raise LabError(f"{archive}: the archive's name must end in .tar")
    if not archive.parent.is_dir():
        raise LabError(f"{archive}: its folder does not exist; make it first")


def write(
    archive: Path,
    folder: Path,
    experiments: Iterable[str],
    *,
    part_bytes: int | None = None,
    claims: bool = False,
) -> list[Path]:
    """Write the named experiments of the set in ``folder`` into one tar, or several; returns their paths.

    With ``part_bytes`` they go, in their order, into ``NAME-1.tar``, ``NAME-2.tar`` and so on, each an
    archive in its own right of at most so many bytes, and larger only where one experiment is. Members are
    ``manifest.json`` (with these experiments and their machines only) and ``EXPERIMENT/FILE``; owners and
    times are neutral. With ``claims`` the values of the book's claims come along, where the set has them.
    Each file appears whole or not at all. Raises `LabError` for an experiment whose traces are not here, or
    of which a file is not what the manifest says; then nothing is written.
    """
    manifest: store.Manifest = {**read_manifest(folder), "set": folder.name}
    captures = store.parse_manifest(manifest, folder)
    parts: list[list[str]] = []
    for name in experiments:
        if captures.absent(name):
            raise LabError(
                f"{captures.name}/{name}: its trace is not in this thin set, so no archive can hold it; "
                "`labcode captures add ARCHIVE` brings it"
            )
        for file in captures.experiments[name].files:
            store.check_hash(folder / name / file.name, file.sha256)
        if parts and (part_bytes is None or _tar_bytes(manifest, [*parts[-1], name]) <= part_bytes):
            parts[-1].append(name)
        else:
            parts.append([name])
    written = []
    for number, part in enumerate(parts, 1):
        place = archive if part_bytes is None else archive.with_name(f"{archive.stem}-{number}.tar")
        _write_one(place, folder, manifest, part, claims=claims and (folder / store.CLAIMS_FILE).is_file())
        written.append(place)
    return written


def add(
    archives: Iterable[Path],
    root: Path | None = None,
    *,
    into: str = "",
    other_gpu: bool = False,
    also: Names = (),
    review: list[str] | None = None,
) -> list[str]:
    """Import archives into the sets they name, a set whole or not at all.

    ``root`` defaults to `store.sets_root`. ``into`` is a set to import into instead; ``other_gpu`` allows
    captures of another model of GPU than the set's. Of an experiment in several archives the last one's
    counts. Values of the book's claims are taken where the set has none. ``also`` are names that nothing in
    them may hold, as are this machine's own. With a list for ``review`` nothing is imported: what cannot be
    told from harmless text goes there. Returns a line for each experiment imported: what it takes the place
    of, and why it is stale, if it is. Raises `InputError` for an archive that is damaged, holds anything but
    the files its manifest lists, or whose files are not what the manifest says; then nothing of any archive
    is imported.
    """
    lines: list[str] = []
    also = (*also, *scan.own_names())
    with ExitStack() as held:
        opened = [held.enter_context(_opened(path)) for path in dict.fromkeys(archives)]
        groups: dict[Path, list[_Archive]] = {}
        for one in opened:
            folder = (root or store.sets_root()) / check_name(into or one.manifest["set"])
            if one.path.resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{one.path}: lies in the set that it would change; move it elsewhere first")
            groups.setdefault(folder, []).append(one)
        ready = []
        for folder, group in groups.items():
            manifest = held.enter_context(open_set(folder))
            before = store.parse_manifest(manifest, folder)
            if not other_gpu:
                _refuse_other_gpus(group, before)
            staged: dict[str, Staged] = {}
            claims: Path | None = None
            for one in group:
                with _faults(one.path):
                    claims = _claims(one, folder, also) or claims
                    for item in _stage(one, folder, also, review):
                        if item.id in staged:
                            lines.append(
                                f"{folder.name}/{item.id}: in several archives, taken from {one.path}"
                            )
                        staged[item.id] = item
                manifest.setdefault("skipped", {}).update(one.manifest.get("skipped", {}))
            ready.append((folder, manifest, before, staged, claims))
        for folder, manifest, before, staged, claims in ready if review is None else ():
            said = [(item.id, _said(before, item)) for item in staged.values()]
            file_experiments(folder, manifest, list(staged.values()))
            if claims is not None:
                claims.replace(folder / store.CLAIMS_FILE)
            now = store.parse_manifest(manifest, folder).experiments
            lines += [f"{text}; {why}" if (why := outdated(name, now[name])) else text for name, text in said]
        for _, _, _, staged, _ in ready if review is not None else ():
            for item in staged.values():
                shutil.rmtree(item.folder)
    return lines


def thin(set_name: str, keep: Iterable[str], archives: Iterable[Path]) -> list[str]:
    """Take the traces of all experiments but those to ``keep`` out of a set; returns what was done, in lines.

    Nothing goes that the archives do not hold: those that are there are checked, and one that is not is
    written, with the experiments that lose traces. Raises `LabError`, and leaves the set as it was, where no
    archive holds a trace, and where a trace is not what the manifest says.
    """
    store.load_set(set_name)
    folder = store.sets_root() / set_name
    kept, given = set(keep), list(dict.fromkeys(archives))
    with open_set(folder) as manifest:
        captures = store.parse_manifest(manifest, folder)
        for name in sorted(kept):
            if name not in captures.experiments:
                raise LabError(f"{name}: {nearest(name, captures.experiments)}")
            if captures.absent(name):
                raise LabError(
                    f"{set_name}/{name}: its trace is not in this thin set, so it cannot be kept; "
                    "`labcode captures add ARCHIVE` brings it"
                )
        leaving = {
            f"{name}/{file.name}": file
            for name, record in captures.experiments.items()
            if name not in kept
            for file in record.files
            if file.is_trace and (folder / name / file.name).is_file()
        }
        names = list(dict.fromkeys(member.split("/")[0] for member in leaving))
        total = byte_text(sum(file.size_bytes for file in leaving.values()))
        if not leaving:
            return [f"{set_name}: no traces to take out"]
        if not given:
            raise LabError(
                f"{set_name}: {total} of traces would be lost; name the archive that holds them with "
                "--archive FILE (written where there is none)"
            )
        for member, file in leaving.items():
            store.check_hash(folder / member, file.sha256)
        lines = [_write_missing(given, folder, names)]
        _refuse_lost(leaving, given, set_name)
        for name in names:
            manifest["experiments"][name]["thin"] = True
        write_json(folder / MANIFEST, manifest)
        for member in leaving:
            (folder / member).unlink()
    lines.append(f"{set_name}: {total} of traces taken out of {len(names)} experiments")
    return [line for line in lines if line]


def _write_missing(archives: list[Path], folder: Path, experiments: list[str]) -> str:
    """Write the one archive that is not there yet; returns a line that says so, or nothing."""
    new = [path for path in archives if not path.exists()]
    if not new:
        return ""
    if len(new) > 1:
        raise LabError(f"{new[1]}: no such file, and {new[0]} is none either; name one archive to write")
    check_target(new[0])
    write(new[0], folder, experiments)
    return f"{new[0]}: {byte_text(new[0].stat().st_size, binary=True)}"


def _refuse_lost(leaving: Mapping[str, store.FileRecord], archives: list[Path], set_name: str) -> None:
    """`LabError` unless archives of this set hold each of these files as the set has it."""
    missing = dict(leaving)
    for path in archives:
        with _opened(path) as one:
            for member in [m for m in missing if m in one.members and one.manifest["set"] == set_name]:
                if one.sha256[member] == missing[member].sha256:
                    del missing[member]
    if missing:
        raise LabError(
            f"{', '.join(map(str, archives))}: {set_name}/{min(missing)} is not in there as the set has it; "
            "write another archive with `labcode captures pack`, nothing was taken out"
        )


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    """An archive whose members are plain, and whose sound manifest lists all of them with their hashes.

    All that is cheap to see is seen here, before what is in any file is looked into.
    """
    with ExitStack() as open_until:
        with _faults(path):
            tar = open_until.enter_context(tarfile.open(plain_file(path), "r:"))
            members = _members(path, tar)
            manifest = _manifest(path, tar, members)
            captures = store.parse_manifest(manifest, Path(manifest["set"]))
            listed = {f"{r.id}/{file.name}": file for r in captures.experiments.values() for file in r.files}
            _compare(path, tar, members, listed)
        sha256 = {name: file.sha256 for name, file in listed.items()}
        yield _Archive(path, tar, members, manifest, captures, sha256)


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """What goes wrong while an archive is read, as one line that names it."""
    try:
        yield
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{path}: not a whole tar archive ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(describe_os_error(error)) from None


def _stage(one: _Archive, folder: Path, also: Names, review: list[str] | None) -> Iterator[Staged]:
    """Unpack an archive's experiments into the set's folder, look into each file; they are not filed yet."""
    text = json.dumps(one.manifest, ensure_ascii=False).encode(errors="replace")
    scan.refuse_private(
        scan.json_texts(text), also, f"{one.path}: {MANIFEST} holds something private", InputError
    )
    for name, entry in one.manifest["experiments"].items():
        place = staging_folder(folder, name)
        for file in (file for run in entry["runs"].values() for file in run["files"]):
            with _open(one.tar, one.members[f"{name}/{file}"]) as source, (place / file).open("xb") as out:
                shutil.copyfileobj(source, out)
            where = f"{one.path}: {name}/{file}"
            content = scan.look_into(place / file, where, also)
            if content.private:
                raise InputError(f"{where} holds something private: {'; '.join(content.private)}; refused")
            if review is not None:
                review += [f"{name}/{file}: {line}" for line in content.review]
        yield Staged(name, place, _all_of(entry), one.manifest["machines"][entry["machine"]])


def _claims(one: _Archive, folder: Path, also: Names) -> Path | None:
    """The claims of an archive, unpacked and looked into, for a set that has none."""
    info = one.members.get(store.CLAIMS_FILE)
    if info is None or (folder / store.CLAIMS_FILE).exists():
        return None
    path = staging_folder(folder, store.CLAIMS_FILE) / store.CLAIMS_FILE
    with _open(one.tar, info) as source, path.open("xb") as out:
        shutil.copyfileobj(source, out)
    where = f"{one.path}: {store.CLAIMS_FILE}"
    try:
        store.read_claims(path)
    except InputError:
        raise InputError(f"{where} is damaged; fetch it again") from None
    if private := scan.look_into(path, where, also).private:
        raise InputError(f"{where} holds something private: {'; '.join(private)}; refused")
    return path


def _refuse_other_gpus(group: list[_Archive], captures: store.CaptureSet) -> None:
    """`InputError` for an archive of another model of GPU than the set, or the archives before it, have."""
    have = gpus_of(captures)
    for one in group:
        new = gpus_of(one.captures)
        if have and new - have:
            raise InputError(
                f"{one.path}: captured on {', '.join(sorted(new - have))}, and the set {captures.name} on "
                f"{', '.join(sorted(have))}; import it as a set of its own with --set NAME, or mix the two "
                "with --other-gpu"
            )
        have |= new


def gpus_of(captures: store.CaptureSet) -> set[str]:
    """The models of GPU that a set was captured on."""
    gpus = [gpu for machine in captures.machines.values() for gpu in machine.get("gpus") or ()]
    return {str(gpu["name"]) for gpu in gpus if gpu.get("name")}


def _said(before: store.CaptureSet, item: Staged) -> str:
    """A line on an experiment that is about to be filed: what it takes the place of."""
    where, now = f"{before.name}/{item.id}", item.entry["captured"]
    old = before.experiments.get(item.id)
    if old is None:
        return f"{where}: added"
    files = {name: about for run in item.entry["runs"].values() for name, about in run["files"].items()}
    if {file.name: file.sha256 for file in old.files} != {k: about["sha256"] for k, about in files.items()}:
        return f"{where}: replaced, captured {old.captured} before and {now} now"
    if before.absent(item.id):
        return f"{where}: whole again, its traces are here"
    return f"{where}: the same as it was, captured {now}"


def _part(manifest: store.Manifest, experiments: list[str]) -> store.Manifest:
    """A manifest of these experiments alone, each whole."""
    part = {name: _all_of(manifest["experiments"][name]) for name in experiments}
    used = {entry["machine"] for entry in part.values()}
    machines = {key: machine for key, machine in manifest["machines"].items() if key in used}
    return {**manifest, "machines": machines, "experiments": part}


def _all_of(entry: store.Entry) -> store.Entry:
    """An entry whose traces are all there."""
    found = entry.copy()
    found.pop("thin", None)
    return found


def _manifest_bytes(part: store.Manifest) -> bytes:
    return json.dumps(part, indent=1, ensure_ascii=False).encode()


def _tar_bytes(manifest: store.Manifest, experiments: list[str]) -> int:
    """How large the archive of these experiments is: a header a member, all in blocks, two empty ones."""
    part = _part(manifest, experiments)
    sizes = [len(_manifest_bytes(part))]
    for entry in part["experiments"].values():
        sizes += [file["bytes"] for run in entry["runs"].values() for file in run["files"].values()]
    blocks = 2 + sum(1 - -size // _TAR_BLOCK for size in sizes)
    return -(-blocks * _TAR_BLOCK // _TAR_RECORD) * _TAR_RECORD


def _write_one(
    archive: Path, folder: Path, manifest: store.Manifest, experiments: list[str], *, claims: bool
) -> None:
    part = _part(manifest, experiments)
    text = _manifest_bytes(part)
    files = [
        f"{name}/{file}"
        for name, entry in part["experiments"].items()
        for file in sorted(file for run in entry["runs"].values() for file in run["files"])
    ]
    files += [store.CLAIMS_FILE] * claims
    reads = [folder / MANIFEST, *(folder / file for file in files)]
    with whole(archive, reads=reads) as made, tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
        about = tarfile.TarInfo(MANIFEST)
        about.size = len(text)
        tar.addfile(neutral(about), io.BytesIO(text))
        for file in files:
            tar.add(folder / file, file, filter=neutral)


def neutral(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """A tar member without its owner, time and mode."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info


def _members(archive: Path, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    found: dict[str, tarfile.TarInfo] = {}
    total = 0
    for number, info in enumerate(tar):
        if number >= _MOST_MEMBERS:
            raise InputError(f"{archive}: more than {_MOST_MEMBERS:,} files and folders; refused")
        if info.isdir() and re.fullmatch(_EXPERIMENT, info.name):
            continue
        if not info.isreg() or info.issparse():
            raise InputError(f"{archive}: {info.name!r} is not a plain file; refused")
        if info.name not in (MANIFEST, store.CLAIMS_FILE) and not _MEMBER.fullmatch(info.name):
            raise InputError(f"{archive}: {info.name!r} is no name of a captured file; refused")
        if info.name in found:
            raise InputError(f"{archive}: {info.name!r} is in it twice; refused")
        found[info.name] = info
        total += info.size
        if info.size > _LARGEST_FILE or total > _LARGEST_TOTAL:
            raise InputError(
                f"{archive}: too large at {info.name!r} (limits: {_LARGEST_FILE >> 20} MiB a file); refused"
            )
    return found


def _manifest(archive: Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> store.Manifest:
    if MANIFEST not in members:
        raise InputError(f"{archive}: has no {MANIFEST}; give a file written by `labcode capture --archive`")
    try:
        manifest: store.Manifest = json.loads(_open(tar, members[MANIFEST]).read())
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
    return manifest


def _compare(
    archive: Path,
    tar: tarfile.TarFile,
    members: Mapping[str, tarfile.TarInfo],
    listed: Mapping[str, store.FileRecord],
) -> None:
    found = members.keys() - {MANIFEST, store.CLAIMS_FILE}
    if found - listed.keys():
        raise InputError(
            f"{archive}: holds {min(found - listed.keys())!r}, which its manifest does not list; refused"
        )
    if listed.keys() - found:
        raise InputError(
            f"{archive}: lacks {min(listed.keys() - found)!r}, which its manifest lists; fetch it again"
        )
    for name, file in listed.items():
        with _open(tar, members[name]) as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()  # type: ignore[arg-type]
        if members[name].size != file.size_bytes or sha256 != file.sha256:
            raise InputError(f"{archive}: {name!r} is not the file its manifest describes; fetch it again")


def _open(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    handle = tar.extractfile(info)
    assert handle is not None
    return handle
