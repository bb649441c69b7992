"""Archives: what was captured on one machine arrives whole on another, and hostile ones are refused."""

import io
import json
import lzma
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from labcode.capture import archive, catalogue, verify
from labcode.capture.filing import open_set
from labcode.errors import InputError, LabError
from labcode.show import byte_text
from labcode.store import load_set
from tests.capture.conftest import Lab
from tests.support.command import labcode, one_line

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
    assert archive.add([packed], elsewhere) == ["mine/alpha: added", "mine/beta: added"]
    arrived = {
        p.relative_to(elsewhere).as_posix(): p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()
    }
    assert arrived == lab.tree()
    monkeypatch.setenv("LABCODE_SETS", str(elsewhere))
    assert load_set("mine").record("alpha", "baseline")["program"] == "program"


@pytest.mark.parametrize("suffix", [".json", ".json.xz", ".clean.json", ".clean.json.xz"])
def test_records_may_be_compressed(suffix: str) -> None:
    assert archive._MEMBER.fullmatch(f"alpha/even{suffix}")
    assert not archive._MEMBER.fullmatch(f"alpha/even{suffix}.xz.xz")


def test_machines_are_merged_and_identical_ones_kept_once(packed: Path, lab: Lab) -> None:
    today = load_set("mine").experiment("alpha").captured
    same = f"the same as it was, captured {today}"
    assert archive.add([packed]) == [f"mine/alpha: {same}", f"mine/beta: {same}"]
    assert list(load_set("mine").machines) == ["m1"]
    assert archive.add([of_beta(packed, machine={"gpu_count": 4})]) == [
        f"mine/beta: replaced, captured {today} before and 2026-01-02 now"
    ]
    captures = load_set("mine")
    assert captures.machine_of("alpha")["gpu_count"] == 2
    assert captures.machine_of("beta")["gpu_count"] == 4
    assert set(captures.machines) == {"m1", "m2"}
    archive.add([packed])
    assert list(load_set("mine").machines) == ["m1"]  # nothing points to the second any more


def of_beta(path: Path, machine: dict[str, object], set_name: str = "mine") -> Path:
    """A copy of an archive with beta alone, another record, from another machine on another day."""

    def change(members: Members) -> None:
        for name in [name for name in members if name.startswith("alpha/")]:
            del members[name]
        edit_manifest(members, lambda d: d["experiments"].pop("alpha"))
        edit_manifest(members, lambda d: d["machines"]["m1"].update(machine))
        edit_manifest(members, lambda d: d["experiments"]["beta"].update(captured="2026-01-02"))
        edit_manifest(members, lambda d: d.update(set=set_name))
        replace(members, "beta/record.json", json.dumps({"program": "other"}).encode())

    return rewrite(path, change).rename(path.with_name(f"beta-{set_name}.tar"))


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
        archive.add([with_entry(packed, info)])
    assert lab.tree() == before
    assert not (lab.sets.parent / "x.json").exists()


def test_members_that_are_too_large_are_refused(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LARGEST_FILE", 100)
    with pytest.raises(InputError, match="too large at"):
        archive.add([packed])


def test_an_xz_bomb_is_refused(packed: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_LIMIT", "0.001")
    bomb = lzma.compress(b"SQLite format 3\0" + bytes(3 << 20))
    before = lab.tree()
    with pytest.raises(InputError, match=r"alpha/baseline\.nsys\.xz unpacks to more than 0\.001 GiB"):
        archive.add([rewrite(packed, lambda m: replace(m, "alpha/baseline.nsys.xz", bomb))])
    assert lab.tree() == before


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("alpha/baseline.nsys.xz", b"not xz", r"alpha/baseline\.nsys\.xz cannot be unpacked"),
        ("alpha/baseline.nsys.xz", lzma.compress(b"text"), "not an SQLite file"),
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
        archive.add([rewrite(packed, lambda m: replace(m, name, data))])
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
        archive.add([rewrite(packed, change)])
    assert lab.tree() == before


def test_damaged_archives_are_named(packed: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar"
    cut.write_bytes(packed.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"cut\.tar"):
        archive.add([cut])
    text = tmp_path / "text.tar"
    text.write_text("hello")
    with pytest.raises(InputError, match=r"text\.tar: not a whole tar archive"):
        archive.add([text])
    with pytest.raises(InputError, match=r"nothing\.tar: no such file; check the path"):
        archive.add([tmp_path / "nothing.tar"])


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
        archive.add([changed])
    assert lab.tree() == before
    load_set("mine")


def test_archives_of_several_machines_and_sets_arrive_in_one_command(packed: Path, tmp_path: Path) -> None:
    other, yours = of_beta(packed, {"gpu_count": 8}), of_beta(packed, {}, "yours")
    elsewhere = tmp_path / "elsewhere"
    assert archive.add([packed, other, yours, packed], elsewhere) == [
        f"mine/beta: in several archives, taken from {other}",
        "mine/alpha: added",
        "mine/beta: added",
        "yours/beta: added",
    ]
    held = json.loads((elsewhere / "mine/manifest.json").read_text())
    assert [machine["gpu_count"] for machine in held["machines"].values()] == [2, 8]
    assert held["experiments"]["beta"]["captured"] == "2026-01-02"
    assert json.loads((elsewhere / "yours/manifest.json").read_text())["set"] == "yours"


def test_of_several_archives_none_is_imported_when_one_is_bad(
    packed: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(archive.scan, "look_into", lambda path, *_: looked.append(path))
    other = of_beta(packed, {}, "yours")
    bad = rewrite(packed, lambda m: m.update({"beta/record.json": b"{}"}))
    before = lab.tree()
    with pytest.raises(InputError, match=r"changed\.tar: 'beta/record\.json' is not the file its manifest"):
        archive.add([packed, other, bad])
    assert lab.tree() == before
    assert looked == []  # hashes come first: looking into files takes minutes


def test_captures_of_another_gpu_are_refused_unless_asked_for(packed: Path, lab: Lab, tmp_path: Path) -> None:
    other = of_beta(packed, {"gpus": [{"name": "Other GPU"}]})
    before = lab.tree()
    refused = (
        f"{other}: captured on Other GPU, and the set mine on Fake GPU; import it as a set of its own "
        "with --set NAME, or mix the two with --other-gpu"
    )
    assert refused in one_line(labcode("captures", "add", other))
    with pytest.raises(InputError, match="captured on Other GPU, and the set mine on Fake GPU"):
        archive.add([packed, other], tmp_path / "new")
    assert lab.tree() == before and not (tmp_path / "new/mine").exists()
    assert labcode("captures", "add", other, "--set", "mine-2").stdout == "mine-2/beta: added\n"
    assert load_set("mine-2").machine_of("beta")["gpus"] == [{"name": "Other GPU"}]
    assert "'../x': not a name for a capture set" in one_line(
        labcode("captures", "add", other, "--set", "../x")
    )
    assert "mine/beta: replaced" in labcode("captures", "add", other, "--other-gpu").stdout
    assert archive.add([other])[0].startswith("mine/beta: the same")  # of a mixed set both are
    nameless = of_beta(packed, {"gpus": []})
    assert archive.add([nameless]) != []


def test_parts_are_archives_in_their_own_right(captured: Lab, tmp_path: Path) -> None:
    folder, size = captured.sets / "mine", captured.archive.stat().st_size
    parts = archive.write(tmp_path / "x.tar", folder, ["alpha", "beta"], part_bytes=size)
    assert [part.name for part in parts] == ["x-1.tar"] and parts[
        0
    ].read_bytes() == captured.archive.read_bytes()
    parts = archive.write(tmp_path / "y.tar", folder, ["beta", "alpha"], part_bytes=size - 1)
    assert [part.name for part in parts] == ["y-1.tar", "y-2.tar"] and not (tmp_path / "y.tar").exists()
    assert [sorted(members_of(part))[0] for part in parts] == [
        "beta/record.json",
        "alpha/baseline.clean.json",
    ]
    assert archive.add([parts[1]], tmp_path / "elsewhere") == ["mine/alpha: added"]
    assert archive.add([parts[0]], tmp_path / "elsewhere") == ["mine/beta: added"]
    assert captured.tree() == {
        p.relative_to(tmp_path / "elsewhere").as_posix(): p.read_bytes()
        for p in (tmp_path / "elsewhere").rglob("*.*")
    }


def test_a_large_record_travels_compressed(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labcode.capture.filing.LARGEST_PLAIN", 10)
    lab.capture("beta", archive=tmp_path / "x.tar")
    assert "beta/record.json.xz" in members_of(tmp_path / "x.tar")
    assert archive.add([tmp_path / "x.tar"], tmp_path / "elsewhere") == ["mine/beta: added"]


def test_a_set_whose_folder_was_renamed_is_packed_by_its_new_name(captured: Lab, tmp_path: Path) -> None:
    renamed = (captured.sets / "mine").rename(captured.sets / "other")
    (packed,) = archive.write(tmp_path / "x.tar", renamed, ["beta"])
    assert archive.add([packed], tmp_path / "elsewhere") == ["other/beta: added"]


def test_packing_a_set(captured: Lab, tmp_path: Path) -> None:
    said = labcode("captures", "pack", "mine", "--archive", tmp_path / "x.tar", "--part-size", "1MB").stdout
    assert said == f"{tmp_path / 'x-1.tar'}: {byte_text(captured.archive.stat().st_size, binary=True)}\n"
    assert (
        labcode("captures", "pack", "mine", "beta", "beta", "--archive", tmp_path / "b.tar").returncode == 0
    )
    assert set(members_of(tmp_path / "b.tar")) == {"manifest.json", "beta/record.json"}
    for words, message in (
        (("mine", "--archive", tmp_path / "x.zip"), "the archive's name must end in .tar"),
        (("mine", "--archive", tmp_path / "none/x.tar"), "its folder does not exist; make it first"),
        (("yours", "--archive", tmp_path / "x.tar"), "no capture set of this name (there are: mine)"),
        (("mine", "delta", "--archive", tmp_path / "x.tar"), "no experiment 'delta' in this set"),
        (
            ("mine", "--archive", tmp_path / "x.tar", "--part-size", "0MB"),
            "0MB: not a size; say for instance",
        ),
        (
            ("mine", "--archive", tmp_path / "x.tar", "--part-size", "many"),
            "many: not a size; say for instance",
        ),
        (("mine",), "Missing option '--archive'"),
    ):
        assert message in one_line(labcode("captures", "pack", *words)), words


def test_a_changed_or_lost_file_is_not_packed(captured: Lab, tmp_path: Path) -> None:
    record = captured.sets / "mine/beta/record.json"
    words = ("captures", "pack", "mine", "--archive", tmp_path / "x.tar")
    record.write_text("{}")
    assert f"{record}: changed since it was captured (its SHA-256 is not" in one_line(labcode(*words))
    record.unlink()
    assert f"{record}: missing from the capture set" in one_line(labcode(*words))
    assert labcode("captures", "pack", "mine", "alpha", "--archive", tmp_path / "a.tar").returncode == 0
    assert (tmp_path / "a.tar").exists()
    assert not (tmp_path / "x.tar").exists()


def test_a_part_of_one_experiment_may_be_larger_and_says_so(captured: Lab, tmp_path: Path) -> None:
    manifest = json.loads((captured.sets / "mine/manifest.json").read_text())
    run = manifest["experiments"]["beta"]["runs"]["record"]
    run["warnings"] = ["x" * 1_100_000]
    (captured.sets / "mine/manifest.json").write_text(json.dumps(manifest))
    said = labcode("captures", "pack", "mine", "--archive", tmp_path / "x.tar", "--part-size", "1MB").stdout
    assert [line.endswith("more than asked for: it is one experiment") for line in said.splitlines()] == [
        False,
        True,
    ]


def test_two_imports_into_one_set_at_once_are_one_line(packed: Path, lab: Lab) -> None:
    with open_set(lab.sets / "mine"):
        said = one_line(labcode("captures", "add", packed))
        assert "sets/mine: another `labcode capture` is writing to this set" in said
        assert "wait for it to end" in one_line(labcode("captures", "thin", "mine"))
        with pytest.raises(LabError, match="another `labcode capture` is writing to this set"):
            lab.capture("beta")
    assert archive.add([packed]) != []


@pytest.mark.parametrize("step", range(1, 8))
def test_who_is_killed_while_importing_has_the_old_set_or_the_new_one(
    packed: Path, lab: Lab, step: int
) -> None:
    before = lab.tree()
    program = f"""
import os, pathlib, signal
from labcode.capture import archive, filing
count = 0
def counted(change):
    def wrapper(*a, **k):
        global count
        count += 1
        if count == {step}:
            os.kill(os.getpid(), signal.SIGKILL)
        return change(*a, **k)
    return wrapper
held = filing.file_experiments
def killed(*a):
    for owner, name in ((pathlib.Path, "rename"), (pathlib.Path, "replace"), (pathlib.Path, "unlink"),
                        (filing.shutil, "rmtree")):
        setattr(owner, name, counted(getattr(owner, name)))
    held(*a)
archive.file_experiments = killed
archive.add([pathlib.Path({str(of_beta(packed, {}))!r})])
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == (-signal.SIGKILL if step < 7 else 0)
    with open_set(lab.sets / "mine"):  # as the next command that writes does
        pass
    after = lab.tree()
    assert verify.verify("mine") == []
    record = load_set("mine").record("beta", "record")
    assert record == {"program": "other"} or after == before
    assert (after == before) == (step < 4)


def test_an_archive_of_the_first_schema_is_imported(packed: Path, lab: Lab) -> None:
    today = load_set("mine").experiment("beta").captured

    def first(manifest: dict) -> None:  # type: ignore[type-arg]
        manifest["schema"] = 1
        for entry in manifest["experiments"].values():
            entry["sources"] = ["program.py"]

    old = rewrite(packed, lambda m: edit_manifest(m, first))
    undated = "its sources have no digests, so nothing says whether it is fresh"
    assert archive.add([old])[1] == f"mine/beta: the same as it was, captured {today}; {undated}"
    (finding,) = verify.verify("mine")
    assert str(finding) == (
        "manifest.json: stale: of the first schema, without digests of sources: nothing says whether alpha, "
        "beta are fresh; capture again what pages should vouch for"
    )
    listed = labcode("captures", "list").stdout
    assert f"stale: {undated}" in listed and str(finding) in listed


def test_what_an_older_book_captured_is_imported_and_said(
    packed: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.program.write_text(lab.program.read_text() + "\nchanged = True\n")
    monkeypatch.delitem(catalogue.EXPERIMENTS, "beta")
    assert archive.add([packed], tmp_path / "elsewhere") == [
        "mine/alpha: added; its sources changed since it was captured",
        "mine/beta: added; the catalogue has no such experiment any more",
    ]


def test_what_the_gpus_cannot_run_travels_with_an_archive(packed: Path, lab: Lab) -> None:
    why = {"gamma": "needs 3 gpus", "beta": "needs more"}
    archive.add([rewrite(packed, lambda m: edit_manifest(m, lambda d: d.update(skipped=why)))])
    assert load_set("mine").skipped == {"gamma": "needs 3 gpus"}  # the set holds beta
    assert "gamma: skipped, needs 3 gpus" in labcode("captures", "list").stdout
