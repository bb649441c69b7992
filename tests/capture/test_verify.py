"""`captures verify`: each thing that can be wrong with a set is found and named."""

from __future__ import annotations

import json
import lzma
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from labcode.capture import catalogue, verify
from labcode.capture.catalogue import Run
from labcode.capture.verify import Finding
from labcode.errors import InputError
from labcode.store import file_sha256
from tests.capture.conftest import Lab


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


def found(kind: str = "") -> list[Finding]:
    return [finding for finding in verify.verify("mine") if not kind or finding.kind == kind]


def test_a_new_set_has_nothing_wrong(captured: Lab) -> None:
    assert verify.verify("mine") == []


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
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"alpha": alpha})
    assert "the catalogue has no such experiment any more" in str(found("stale")[0])


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
    name = "baseline.sqlite.xz"
    export = lzma.decompress((captured.sets / "mine/alpha" / name).read_bytes())
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
    put(captured, "alpha", "baseline.sqlite.xz", data)
    assert [(f.where, f.kind) for f in found()] == [("alpha/baseline.sqlite.xz", "damaged")]
    assert found()[0].text.startswith(text)


def test_large_files_and_sets(captured: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "LARGEST_FILE", 1000)
    monkeypatch.setattr(verify, "LARGEST_SET", 4000)
    assert {f.where for f in found("large")} == {
        "mine",
        "alpha/baseline.sqlite.xz",
        "alpha/improved.sqlite.xz",
    }


def test_a_set_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(InputError, match=r"sets.mine: no capture set of this name \(there are: none\)"):
        verify.verify("mine")


def test_the_shipped_sets_are_whole_fresh_and_fit_to_publish() -> None:
    from labcode import store

    root = Path(store.__file__).resolve().parents[1] / "captures"
    names = sorted(path.parent.name for path in root.glob("*/manifest.json"))
    if not names:
        pytest.skip("no capture set ships yet")
    assert [f"{name}: {finding}" for name in names for finding in verify.verify(name)] == []
