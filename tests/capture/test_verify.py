"""`captures verify`: each thing that can be wrong with a set is found and named."""

import json
import lzma
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from labcode import store
from labcode.capture import archive as archives
from labcode.capture import catalogue, verify
from labcode.capture.catalogue import Run
from labcode.capture.verify import Finding
from labcode.errors import InputError
from labcode.show import byte_text
from labcode.store import file_sha256, load_set, unpack_xz
from tests.capture.conftest import Lab
from tests.capture.test_archive import edit_manifest, rewrite
from tests.capture.test_archive import replace as swap
from tests.support.command import labcode, one_line


def put(lab: Lab, experiment: str, name: str, data: bytes) -> None:
    """Put other bytes into a captured file and make the manifest agree, as someone who hides things would."""
    path = lab.sets / "mine" / experiment / name
    path.write_bytes(data)
    manifest_path = lab.sets / "mine/manifest.json"
    manifest = json.loads(manifest_path.read_text())
    for run in manifest["experiments"][experiment]["runs"].values():
        if name in run["files"]:
            run["files"][name] = {"sha256": file_sha256(path), "bytes": len(data)}
    manifest_path.write_text(json.dumps(manifest))


def export_of(path: Path) -> bytes:
    """The SQLite file that a set keeps packed."""
    with TemporaryDirectory() as folder:
        unpack_xz(path, Path(folder) / "export.sqlite")
        return (Path(folder) / "export.sqlite").read_bytes()


def found(kind: str = "") -> list[Finding]:
    return [finding for finding in verify.verify("mine") if not kind or finding.kind == kind]


def test_a_new_set_has_nothing_wrong(captured: Lab) -> None:
    assert verify.verify("mine") == []


def test_a_run_beside_which_the_host_was_slow(captured: Lab) -> None:
    def filed(**host_s: object) -> None:
        path = captured.sets / "mine/manifest.json"
        manifest = json.loads(path.read_text())
        for experiment, seconds in host_s.items():
            for run in manifest["experiments"][experiment]["runs"].values():
                run["host_s"] = seconds
        path.write_text(json.dumps(manifest))

    filed(alpha=[0.005, 0.0053], beta=[0.0095, 0.0095])
    assert list(verify.disturbed(load_set("mine"))) == []
    filed(beta=[0.015, 0.016])
    said = labcode("captures", "verify", "mine")
    assert "mine: beta: disturbed: record: the host took 3.2 times as long for the same work" in said.stdout
    assert "alpha" not in said.stdout and said.returncode == 0
    for wrong in ([0.005, -1.0], [0.005, "x"], [True], "x"):
        filed(beta=wrong)
        with pytest.raises(InputError, match="host_s"):
            load_set("mine")


def test_changed_and_missing_files(captured: Lab) -> None:
    folder = captured.sets / "mine"
    (folder / "beta/record.json").write_text("{}")
    (folder / "alpha/baseline.json").unlink()
    assert [str(f).split("; ")[0] for f in verify.verify("mine")] == [
        "alpha/baseline.json: missing: restore it from version control, or capture the experiment again",
        "beta/record.json: changed: its SHA-256 is not the manifest's",
    ]


def test_stray_files_links_and_leftovers(captured: Lab) -> None:
    folder = captured.sets / "mine"
    (folder / "alpha/notes.txt").write_text("x")
    (folder / "beta/link.json").symlink_to(folder / "beta/record.json")
    (folder / ".old-alpha").mkdir()
    (folder / ".old-alpha/baseline.json").write_text("{}")
    (folder / "claims.json").write_text("{}")
    assert {f.where: f.text.split(";")[0] for f in found("stray")} == {
        "alpha/notes.txt": "not in the manifest",
        "beta/link.json": "a link",
        ".old-alpha/baseline.json": "left by an interrupted capture",
    }


def test_changed_sources_make_a_capture_stale_and_comments_do_not(captured: Lab) -> None:
    text = captured.program.read_text()
    captured.program.write_text(text + "\n# a comment\n")
    assert found() == []
    captured.program.write_text(text + "\nchanged = True\n")
    assert [(f.where, f.kind) for f in verify.verify("mine")] == [("alpha", "stale"), ("beta", "stale")]
    assert "capture it again with `labcode capture alpha --set mine`" in str(found()[0])


def test_a_changed_catalogue_makes_a_capture_stale(captured: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, beta = catalogue.EXPERIMENTS["alpha"], catalogue.EXPERIMENTS["beta"]
    for changed in (
        replace(alpha, runs=(*alpha.runs, Run("third"))),
        replace(alpha, runs=(alpha.runs[0], Run("improved", ("--variant", "other", "--gpus", "2")))),
        replace(
            alpha, runs=(alpha.runs[0], Run("improved", alpha.runs[1].args, ("--cuda-graph-trace=node",)))
        ),
        replace(alpha, sources=("program.py", "more.py")),
    ):
        monkeypatch.setattr(catalogue, "EXPERIMENTS", {"alpha": changed, "beta": beta})
        assert [(f.where, f.kind) for f in found()] == [("alpha", "stale")], changed


def test_a_set_of_an_older_book_is_said_per_experiment(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha, beta = catalogue.EXPERIMENTS["alpha"], catalogue.EXPERIMENTS["beta"]

    def said(*experiments: catalogue.Experiment) -> str:
        monkeypatch.setattr(catalogue, "EXPERIMENTS", {e.id: e for e in experiments})
        (finding,) = found("stale")
        listed = labcode("captures", "list").stdout
        assert f"stale: {finding.text.split('; ')[0]}" in listed
        return str(finding)

    gone = "beta: stale: the catalogue has no such experiment any more"
    assert said(alpha) == f"{gone}; no page shows it, the rest of the set is used"
    assert said(alpha, replace(beta, id="new")).startswith(f"{gone} (new has its runs and sources); no page")
    runs = replace(alpha, runs=(alpha.runs[0], Run("second"), Run("third")))
    assert said(runs, beta) == (
        "alpha: stale: it lacks the run second, third and the catalogue no longer has its run improved; "
        "capture it again with `labcode capture alpha --set mine`"
    )
    assert load_set("mine").record("alpha", "baseline")["program"] == "program"


def thin(lab: Lab, *keep: str) -> Path:
    """Make the set thin; returns the archive with what it lost."""
    archive = lab.home.parent / "traces.tar"
    words = [word for name in keep for word in ("--keep", name)]
    said = labcode("captures", "thin", "mine", "--archive", archive, *words)
    assert said.returncode == 0, said.stderr
    return archive


def test_a_thin_set_lacks_what_its_manifest_says_and_gets_it_back(captured: Lab) -> None:
    before = captured.tree()
    manifest = load_set("mine")
    sizes = [file.size_bytes for file in manifest.experiment("alpha").files if file.is_trace]
    archive = thin(captured, "beta")
    assert set(before) - set(captured.tree()) == {
        "mine/alpha/baseline.nsys.xz",
        "mine/alpha/improved.nsys.xz",
    }
    assert [f.name for f in load_set("mine").absent("alpha")] == ["baseline.nsys.xz", "improved.nsys.xz"]
    assert load_set("mine").absent("beta") == ()
    assert verify.verify("mine") == []
    lacks = f"thin: traces of 1 experiments ({sum(sizes):,} bytes) are not here; "
    said = labcode("captures", "verify", "mine")
    assert said.returncode == 0 and said.stdout.splitlines() == [
        f"mine: {lacks}`labcode captures add ARCHIVE` brings them",
        "mine: what is here is unchanged, fresh, nothing private inside",
    ]
    listed = labcode("captures", "list").stdout
    assert f", thin: {byte_text(sum(sizes))} not here, fresh" in listed and lacks in listed
    assert load_set("mine").record("alpha", "baseline", clean=True)["program"] == "program"
    with pytest.raises(
        InputError,
        match="mine/alpha: its trace is not in this thin set; `labcode captures add ARCHIVE` brings it",
    ):
        load_set("mine").path_of("alpha", "baseline")
    assert labcode("captures", "add", archive).stdout == "mine/alpha: whole again, its traces are here\n"
    assert captured.tree() == before


def test_in_a_thin_set_only_traces_may_be_elsewhere(captured: Lab) -> None:
    thin(captured)
    (captured.sets / "mine/alpha/baseline.json").unlink()
    (captured.sets / "mine/alpha/improved.nsys.xz").write_bytes(b"not xz")
    assert [(f.where, f.kind) for f in found()] == [
        ("alpha/baseline.json", "missing"),
        ("alpha/improved.nsys.xz", "changed"),
    ]


def test_traces_go_only_where_an_archive_holds_them(captured: Lab, tmp_path: Path) -> None:
    before = captured.tree()
    there = captured.archive

    def refused(*words: object) -> str:
        said = one_line(labcode("captures", "thin", "mine", *words))
        assert captured.tree() == before
        return said

    assert re.search(r"mine: [\d.]+ kB of traces would be lost; name the archive that holds them", refused())
    other = rewrite(there, lambda m: edit_manifest(m, lambda d: d.update(set="yours")))
    lost = "mine/alpha/baseline.nsys.xz is not in there as the set has it; write another archive"
    assert lost in refused("--archive", other)
    data = lzma.compress(b"SQLite format 3\0 of another run")
    assert lost in refused("--archive", rewrite(there, lambda m: swap(m, "alpha/baseline.nsys.xz", data)))
    assert "not a whole tar archive" in refused("--archive", captured.program)
    missing = ("--archive", tmp_path / "a.tar", "--archive", tmp_path / "b.tar")
    assert "b.tar: no such file, and" in refused(*missing)
    assert "x.zip: the archive's name must end in .tar" in refused("--archive", tmp_path / "x.zip")
    assert "alpa: did you mean alpha? There are: alpha, beta" in refused("--keep", "alpa", "--archive", there)
    trace = captured.sets / "mine/alpha/improved.nsys.xz"
    trace.write_bytes(b"changed")
    before = captured.tree()
    assert "improved.nsys.xz: changed since it was captured" in refused("--archive", there)
    trace.unlink()
    assert "yours: no capture set of this name" in one_line(labcode("captures", "thin", "yours"))


def test_an_archive_that_is_there_will_do_and_a_thin_experiment_cannot_be_packed(captured: Lab) -> None:
    held = captured.archive.read_bytes()
    said = labcode("captures", "thin", "mine", "--archive", captured.archive).stdout
    assert re.fullmatch(r"mine: [\d.]+ kB of traces taken out of 1 experiments\n", said)
    assert captured.archive.read_bytes() == held
    assert labcode("captures", "thin", "mine").stdout == "mine: no traces to take out\n"
    not_here = "mine/alpha: its trace is not in this thin set, so"
    said = one_line(labcode("captures", "pack", "mine", "--archive", captured.home.parent / "p.tar"))
    assert f"{not_here} no archive can hold it; `labcode captures add ARCHIVE` brings it" in said
    said = one_line(labcode("captures", "thin", "mine", "--keep", "alpha"))
    assert f"{not_here} it cannot be kept; `labcode captures add ARCHIVE` brings it" in said


def test_what_was_interrupted_while_traces_went_goes_on(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stopped)
        with pytest.raises(KeyboardInterrupt):
            archives.thin("mine", (), [captured.archive])
    assert verify.verify("mine") == [] and load_set("mine").absent("alpha") == ()
    assert load_set("mine").path_of("alpha", "baseline").is_file()
    archives.thin("mine", (), [captured.archive])
    assert len(load_set("mine").absent("alpha")) == 2 and verify.verify("mine") == []


def test_a_thin_set_captured_again_is_whole(captured: Lab) -> None:
    thin(captured)
    assert captured.capture("alpha") == 0
    assert load_set("mine").absent("alpha") == () and verify.verify("mine") == []
    assert not load_set("mine").experiment("alpha").thin


def test_pages_show_the_shipped_capture_where_a_trace_is_not_here(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(captured.sets / "mine", captured.sets / "whole")
    monkeypatch.setattr(store, "SHIPPED_SET", "whole")
    assert store.holder("mine", "alpha").name == "mine"
    thin(captured)
    assert store.holder("mine", "alpha").name == "whole"
    assert store.holder("mine", "beta").name == "mine"


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (json.dumps({"data": "at /home/someone/x"}).encode(), "private", "an absolute path"),
        (json.dumps({"to": "me@example.org"}).encode(), "private", "an e-mail address"),
        (pickle.dumps({"a": 1}), "private", "a pickle"),
        (b"{", "damaged", "is not valid JSON"),
    ],
)
def test_private_and_damaged_json(captured: Lab, data: bytes, kind: str, text: str) -> None:
    put(captured, "beta", "record.json", data)
    assert [(f.where, f.kind) for f in found()] == [("beta/record.json", kind)]
    assert found()[0].text.startswith(text)


def test_private_things_in_a_compressed_export_are_found(captured: Lab) -> None:
    name = "baseline.nsys.xz"
    export = export_of(captured.sets / "mine/alpha" / name)
    put(captured, "alpha", name, lzma.compress(export + b"\0LD_LIBRARY_PATH=/x\0".ljust(4096, b"\0")))
    assert [(f.where, f.kind) for f in found()] == [(f"alpha/{name}", "private")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"not xz", "cannot be unpacked"),
        (lzma.compress(b"text"), "not an SQLite file"),
    ],
)
def test_damaged_exports(captured: Lab, data: bytes, text: str) -> None:
    put(captured, "alpha", "baseline.nsys.xz", data)
    assert [(f.where, f.kind) for f in found()] == [("alpha/baseline.nsys.xz", "damaged")]
    assert found()[0].text.startswith(text)


def test_large_files_and_sets(captured: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "LARGEST_FILE", 1000)
    monkeypatch.setattr(verify, "LARGEST_SET", 4000)
    assert {f.where for f in found("large")} == {
        "mine",
        "alpha/baseline.nsys.xz",
        "alpha/improved.nsys.xz",
    }


def test_a_set_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(InputError, match=r"sets.mine: no capture set of this name \(there are: none\)"):
        verify.verify("mine")
