"""Archives: what was captured on one machine arrives whole on another, and hostile ones are refused."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from labcode.capture import archive, scan
from labcode.errors import InputError, LabError
from labcode.store import load_set
from tests.capture.conftest import Lab

Members = dict[str, bytes]


@pytest.fixture
def packed(captured: Lab) -> Path:
    """An archive with the experiments alpha and beta, which are in the set too."""
    return captured.archive


def members_of(path: Path) -> Members:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def rewrite(path: Path, change: Callable[[Members], object]) -> Path:
    """A copy of an archive with other members."""
    members = members_of(path)
    change(members)
    other = path.with_name("changed.tar")
    with tarfile.open(other, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return other


def with_entry(path: Path, info: tarfile.TarInfo) -> Path:
    other = path.with_name("changed.tar")
    other.write_bytes(path.read_bytes())
    with tarfile.open(other, "a") as tar:
        tar.addfile(info)
    return other


def edit_manifest(members: Members, edit: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    manifest = json.loads(members["manifest.json"])
    edit(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()


def replace(members: Members, name: str, data: bytes) -> None:
    """Put other bytes into a member and make the manifest agree."""
    import hashlib

    members[name] = data
    experiment, file = name.split("/")

    def edit(manifest: dict) -> None:  # type: ignore[type-arg]
        for run in manifest["experiments"][experiment]["runs"].values():
            if file in run["files"]:
                run["files"][file] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    edit_manifest(members, edit)


def test_an_archive_says_nothing_about_who_made_it(packed: Path) -> None:
    with tarfile.open(packed) as tar:
        infos = tar.getmembers()
    assert infos[0].name == "manifest.json"
    assert {(i.uid, i.gid, i.uname, i.gname, i.mtime, i.mode) for i in infos} == {(0, 0, "", "", 0, 0o644)}


def test_an_archive_arrives_whole_in_a_new_set(
    packed: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = packed.parent / "elsewhere"
    assert archive.add(packed, elsewhere) == ["mine/alpha: added", "mine/beta: added"]
    arrived = {
        p.relative_to(elsewhere).as_posix(): p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()
    }
    assert arrived == lab.tree()
    monkeypatch.setenv("LABCODE_SETS", str(elsewhere))
    assert load_set("mine").record("alpha", "baseline")["program"] == "program"


def test_machines_are_merged_and_identical_ones_kept_once(packed: Path, lab: Lab) -> None:
    assert archive.add(packed) == ["mine/alpha: replaced", "mine/beta: replaced"]
    assert list(load_set("mine").machines) == ["m1"]
    bigger = rewrite(packed, lambda m: edit_manifest(m, lambda d: d["machines"]["m1"].update(gpu_count=4)))
    with_beta_only = rewrite(bigger, _drop_alpha)
    assert archive.add(with_beta_only) == ["mine/beta: replaced"]
    captures = load_set("mine")
    assert captures.machine_of("alpha")["gpu_count"] == 2
    assert captures.machine_of("beta")["gpu_count"] == 4
    assert set(captures.machines) == {"m1", "m2"}
    archive.add(packed)
    assert list(load_set("mine").machines) == ["m1"]  # nothing points to the second any more


def _drop_alpha(members: Members) -> None:
    for name in [name for name in members if name.startswith("alpha/")]:
        del members[name]
    edit_manifest(members, lambda d: d["experiments"].pop("alpha"))


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (
            entry("alpha/baseline.json", tarfile.SYMTYPE, "/etc/passwd"),
            "'alpha/baseline.json' is not a plain file",
        ),
        (entry("alpha/x.json", tarfile.LNKTYPE, "../../x"), "'alpha/x.json' is not a plain file"),
        (entry("alpha/x.json", tarfile.CHRTYPE), "'alpha/x.json' is not a plain file"),
        (entry("alpha/x.json", tarfile.FIFOTYPE), "'alpha/x.json' is not a plain file"),
        (entry("../x.json", tarfile.REGTYPE), r"'\.\./x\.json' is no name of a captured file"),
        (entry("/etc/x.json", tarfile.REGTYPE), "'/etc/x.json' is no name of a captured file"),
        (entry("alpha/../../x.json", tarfile.REGTYPE), "is no name of a captured file"),
        (entry("alpha/sub/x.json", tarfile.REGTYPE), "is no name of a captured file"),
        (entry("alpha/x.pkl", tarfile.REGTYPE), "'alpha/x.pkl' is no name of a captured file"),
        (entry(".git/x.json", tarfile.REGTYPE), r"'\.git/x\.json' is no name of a captured file"),
        (entry("alpha/baseline.json", tarfile.REGTYPE), "'alpha/baseline.json' is in it twice"),
        (
            entry("alpha/extra.json", tarfile.REGTYPE),
            "holds 'alpha/extra.json', which its manifest does not list",
        ),
    ],
)
def test_hostile_members_are_refused(packed: Path, lab: Lab, info: tarfile.TarInfo, message: str) -> None:
    before = lab.tree()
    with pytest.raises(InputError, match=message):
        archive.add(with_entry(packed, info))
    assert lab.tree() == before
    assert not (lab.sets.parent / "x.json").exists()


def test_members_that_are_too_large_are_refused(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LARGEST_FILE", 100)
    with pytest.raises(InputError, match="too large at"):
        archive.add(packed)


def test_an_xz_bomb_is_refused(packed: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_LARGEST_UNPACKED", 1 << 20)
    bomb = lzma.compress(b"SQLite format 3\0" + bytes(3 << 20))
    before = lab.tree()
    with pytest.raises(InputError, match=r"alpha/baseline\.sqlite\.xz unpacks to more than 1 MiB; refused"):
        archive.add(rewrite(packed, lambda m: replace(m, "alpha/baseline.sqlite.xz", bomb)))
    assert lab.tree() == before


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("alpha/baseline.sqlite.xz", b"not xz", r"alpha/baseline\.sqlite\.xz cannot be unpacked"),
        ("alpha/baseline.sqlite.xz", lzma.compress(b"text"), "not an SQLite file"),
        ("beta/record.json", b"{", r"beta/record\.json is not valid JSON"),
        ("beta/record.json", b"[" * 100_000, r"beta/record\.json is not valid JSON"),
        (
            "beta/record.json",
            b'{"at": "/home/someone/x"}',
            r"beta/record\.json holds something private: an absolute path",
        ),
    ],
)
def test_files_that_are_not_what_they_seem_are_refused(
    packed: Path, lab: Lab, name: str, data: bytes, message: str
) -> None:
    before = lab.tree()
    with pytest.raises(InputError, match=message):
        archive.add(rewrite(packed, lambda m: replace(m, name, data)))
    assert lab.tree() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m.update({"alpha/baseline.json": b"{}"}),
            r"'alpha/baseline\.json' is not the file its manifest describes",
        ),
        (lambda m: m.pop("alpha/baseline.json"), r"lacks 'alpha/baseline\.json', which its manifest lists"),
        (lambda m: m.pop("manifest.json"), r"has no manifest\.json; give a file written by"),
        (lambda m: m.update({"manifest.json": b"{"}), "its manifest is damaged"),
        (lambda m: m.update({"manifest.json": b"[1]"}), "its manifest is damaged"),
        (lambda m: edit_manifest(m, lambda d: d.update(schema=99)), "manifest schema 99 is newer"),
        (lambda m: edit_manifest(m, lambda d: d.update(set="../../evil")), "not a name for a capture set"),
        (lambda m: edit_manifest(m, lambda d: d["experiments"].clear()), "holds 'alpha|holds no experiments"),
        (
            lambda m: edit_manifest(m, lambda d: d["experiments"].update({"..": d["experiments"]["alpha"]})),
            "not a name",
        ),
        (
            lambda m: edit_manifest(m, lambda d: d["experiments"]["alpha"].update(machine="m9")),
            "damaged manifest",
        ),
    ],
)
def test_manifests_that_lie_are_refused(
    packed: Path, lab: Lab, change: Callable[[Members], object], message: str
) -> None:
    before = lab.tree()
    with pytest.raises(LabError, match=message):
        archive.add(rewrite(packed, change))
    assert lab.tree() == before


def test_damaged_archives_are_named(packed: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar"
    cut.write_bytes(packed.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"cut\.tar"):
        archive.add(cut)
    text = tmp_path / "text.tar"
    text.write_text("hello")
    with pytest.raises(InputError, match=r"text\.tar: not a whole tar archive"):
        archive.add(text)
    with pytest.raises(InputError, match=r"nothing\.tar: no such file; check the path"):
        archive.add(tmp_path / "nothing.tar")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda entry: entry.update(sources=[7]), "'sources' is of type int, not str"),
        (lambda entry: entry.update(sources=["/etc/passwd"]), "lies outside of the repository"),
        (lambda entry: entry.update(captured=20260101), "'captured' is of type int, not str"),
    ],
)
def test_a_manifest_of_other_types_is_refused_whole(
    packed: Path,
    lab: Lab,
    edit: Callable[[dict], object],
    message: str,  # type: ignore[type-arg]
) -> None:
    before = lab.tree()
    changed = rewrite(packed, lambda m: edit_manifest(m, lambda d: edit(d["experiments"]["beta"])))
    with pytest.raises(InputError, match=message):
        archive.add(changed)
    assert lab.tree() == before
    load_set("mine")
