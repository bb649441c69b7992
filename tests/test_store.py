"""Capture sets are read with their hashes checked; what is damaged is named."""

import gzip
import json
import lzma
import os
import re
from pathlib import Path

import pytest

from labcode import store
from labcode.errors import InputError, LabError
from labcode.store import load_set, unpack_xz
from tests.support.command import labcode, one_line
from tests.support.sets import make_set

RECORD = {"program": "p", "results": {"time_ms": 1.5}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set ``small`` with one experiment of one run."""
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "sets"))
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LABCODE_CAPTURES", raising=False)
    contents = {
        "base.sqlite.xz": lzma.compress(b"SQLite format 3\0 and so on"),
        "base.json": json.dumps(RECORD).encode(),
        "base.clean.json": json.dumps({**RECORD, "clean": True}).encode(),
    }
    return make_set(
        tmp_path / "sets/small",
        {"loop": {"base": contents}},
        machine={"driver": "1"},
        run={"tool_args": ["--trace=cuda"], "warnings": ["slow"]},
        title="A loop",
        tool="nsys",
        sources={"a.py": "0"},
        wall_s=2.5,
    )


def write(folder: Path, manifest: object) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest))


def manifest_of(folder: Path) -> dict:  # type: ignore[type-arg]
    return json.loads((folder / "manifest.json").read_text())  # type: ignore[no-any-return]


def test_a_set_reads_back_what_was_captured(folder: Path, tmp_path: Path) -> None:
    assert store.list_sets() == ["small"]
    captures = load_set("small")
    assert captures.experiment("loop").wall_s == 2.5
    assert captures.run("loop", "base").warnings == ("slow",)
    assert captures.machine_of("loop") == {"driver": "1"}
    assert captures.record("loop", "base") == RECORD
    assert captures.record("loop", "base", clean=True)["clean"] is True
    unpacked = captures.path_of("loop", "base")
    assert unpacked.read_bytes().startswith(b"SQLite") and unpacked.is_relative_to(tmp_path / "cache")
    assert captures.path_of("loop", "base") == unpacked
    assert captures.stored("loop", "base", ".sqlite").name == "base.sqlite.xz"


def test_a_changed_file_is_refused(folder: Path) -> None:
    (folder / "loop/base.json").write_text('{"program": "other"}')
    with pytest.raises(InputError, match=r"base\.json: changed since it was captured"):
        load_set("small").record("loop", "base")
    (folder / "loop/base.sqlite.xz").write_bytes(lzma.compress(b"other"))
    with pytest.raises(InputError, match=r"base\.sqlite\.xz: changed since it was captured"):
        load_set("small").path_of("loop", "base")
    (folder / "loop/base.json").unlink()
    with pytest.raises(InputError, match=r"base\.json: missing from the capture set; restore it"):
        load_set("small").record("loop", "base")


def test_what_is_not_in_a_set_is_named_with_what_is(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no capture set of this name \(there are: small\)"):
        load_set("big")
    captures = load_set("small")
    with pytest.raises(
        InputError, match=r"no experiment 'jump' in this set \(it holds: loop\).*labcode capture jump"
    ):
        captures.experiment("jump")
    with pytest.raises(InputError, match=r"no run 'best' \(there are: base\)"):
        captures.run("loop", "best")
    with pytest.raises(InputError, match=r"run 'base' has no \.ncu-rep file"):
        captures.path_of("loop", "base", ".ncu-rep")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m.update(schema=99),
            r"manifest schema 99 is newer than this labcode knows \(2\); update",
        ),
        (lambda m: m.pop("schema"), "not a capture set's manifest"),
        (lambda m: m.pop("experiments"), "damaged manifest"),
        (lambda m: m["experiments"]["loop"].pop("tool"), r"damaged manifest \(KeyError: 'tool'\)"),
        (lambda m: m["experiments"]["loop"].update(machine="m2"), "damaged manifest"),
        (
            lambda m: m["experiments"]["loop"]["runs"]["base"]["files"].update({"../x": {}}),
            "damaged manifest",
        ),
        (
            lambda m: m["experiments"].update({"../x": m["experiments"]["loop"]}),
            "is not a name an experiment",
        ),
        (lambda m: m["experiments"]["loop"].update(sources=[7]), "'sources' is of type int, not str"),
        (lambda m: m["experiments"]["loop"].update(sources=7), "'sources' is of type int, not dict or list"),
        (lambda m: m["experiments"]["loop"].update(sources={"/a.py": "0"}), "lies outside of the repository"),
        (lambda m: m["experiments"]["loop"].update(sources={"a.py": 7}), "'a.py' is of type int, not str"),
        (lambda m: m["experiments"]["loop"].update(timed=7), "'timed' is of type int, not dict"),
        (lambda m: m["experiments"]["loop"].update(timed={"sources": 1}), "'sources' is of type int"),
        (lambda m: m["experiments"]["loop"].update(thin="yes"), "'thin' is of type str, not bool"),
        (
            lambda m: m["experiments"]["loop"].update(sources=["/etc/passwd"]),
            "lies outside of the repository",
        ),
        (lambda m: m["experiments"]["loop"].update(sources=["../../x"]), "lies outside of the repository"),
        (lambda m: m["experiments"]["loop"].update(title=None), "'title' is of type NoneType, not str"),
        (lambda m: m["experiments"]["loop"].update(title="\ud800"), "surrogates not allowed"),
        (lambda m: m["experiments"]["loop"].update(wall_s="1"), "'wall_s' is of type str, not int or float"),
        (lambda m: m["experiments"]["loop"].update(wall_s=1e999), "'wall_s' is no sensible number"),
        (lambda m: m["experiments"]["loop"].update(wall_s=10**4000), "'wall_s' is no sensible number"),
        (lambda m: m["experiments"]["loop"].update(runs=[]), "'runs' is of type list, not dict"),
        (lambda m: m["experiments"]["loop"]["runs"].update(base=3), "no object where 'files' should be"),
        (lambda m: m["experiments"]["loop"]["runs"]["base"].update(argv="x"), "'argv' is of type str"),
        (lambda m: m["experiments"].update(loop=None), "no object where 'runs' should be"),
        (lambda m: m.update(experiments=[]), "'experiments' is of type list, not dict"),
        (lambda m: m.update(machines=[]), "'machines' is of type list, not dict"),
        (lambda m: m.update(machines={"m1": 1}), "machine m1 is no object"),
        (lambda m: m["machines"]["m1"].update(gpus=["H200"]), "no object where"),
        (lambda m: m["machines"]["m1"].update(gpus=[{"name": 7}]), "'name' is of type int"),
        (lambda m: m["machines"]["m1"].update(driver=[1]), "'driver' is of type list"),
        (
            lambda m: m["experiments"]["loop"]["runs"]["base"]["files"].update({"a\0b": {}}),
            r"damaged manifest \(ValueError: file name",
        ),
        (lambda m: m.update(schema=True), "not a capture set's manifest"),
    ],
)
def test_damaged_manifests_are_refused(folder: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    manifest = manifest_of(folder)
    change(manifest)
    write(folder, manifest)
    with pytest.raises(LabError, match=message):
        load_set("small")
    for words in (("list",), ("verify",), ("verify", "small"), ("compare", "small", "other")):
        assert re.search(message, one_line(labcode("captures", *words)))


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"schema": ' + "1" * 100_000 + "}", "\ud800", "[]", "1"]
)
def test_a_manifest_that_is_no_json_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text, errors="surrogatepass")
    for words in (("list",), ("verify",), ("compare", "small", "other")):
        said = one_line(labcode("captures", *words))
        assert re.search(r"manifest\.json: not (valid JSON|a capture set's manifest)", said)
        assert len(said) < 500


def test_a_manifest_that_is_a_link_to_a_device_is_not_read(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to("/dev/zero")
    assert "no capture set of this name" in one_line(labcode("captures", "verify", "small"))


def test_a_cache_of_somebody_else_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / f"cache/unpacked-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match="not a folder of your own; remove it, or set LABCODE_CACHE"):
        load_set("small").path_of("loop", "base")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_the_home_is_read_only_the_cache_lies_among_temporary_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for place in (home, temporary):
        place.mkdir()
    monkeypatch.delenv("LABCODE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert store.cache_folder() == home / ".cache" / "profiling-lab"
    monkeypatch.setattr(os, "access", lambda place, mode: place != home)
    own = temporary / f"profiling-lab-{os.getuid()}"
    assert load_set("small").path_of("loop", "base").is_relative_to(own)
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    with pytest.raises(LabError, match="not a folder of your own; remove it, or set LABCODE_CACHE"):
        store.cache_folder()


def test_a_changed_file_of_the_cache_is_thrown_away(folder: Path) -> None:
    unpacked = load_set("small").path_of("loop", "base")
    whole = unpacked.read_bytes()
    unpacked.write_bytes(b"poison")
    again = load_set("small").path_of("loop", "base")
    assert again.read_bytes() == whole and len(list(again.parent.iterdir())) == 1


def test_unpacking_is_whole_or_not_at_all(tmp_path: Path) -> None:
    packed, target = tmp_path / "a.xz", tmp_path / "out/a"
    data = lzma.compress(bytes(range(256)) * 1000)
    packed.write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"a\.xz: cannot be unpacked"):
        unpack_xz(packed, target)
    assert list(target.parent.iterdir()) == []
    packed.write_bytes(data)
    unpack_xz(packed, target)
    assert target.read_bytes() == bytes(range(256)) * 1000
    assert [path.name for path in target.parent.iterdir()] == ["a"]


def test_the_current_set_is_the_shipped_one_unless_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.current_set() == store.SHIPPED_SET
    monkeypatch.setenv("LABCODE_CAPTURES", "small")
    assert load_set().name == "small"


def test_what_unpacks_without_end_is_refused_below_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LEAST_LIMIT", 1 << 22)
    zeros = tmp_path / "a.sqlite.xz"
    zeros.write_bytes(lzma.compress(bytes(1 << 23), preset=0))
    with pytest.raises(InputError, match=r"a\.sqlite\.xz: unpacks to more than 0\.00391 GiB; if it is to be"):
        unpack_xz(zeros, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("LABCODE_LIMIT", "0.01")
    unpack_xz(zeros, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == 1 << 23


def test_what_was_unpacked_under_a_higher_limit_is_thrown_away_under_a_lower_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    packed = tmp_path / "a.sqlite.xz"
    packed.write_bytes(lzma.compress(bytes(1 << 20), preset=0))
    made = store.unpacked(packed, ".sqlite")
    assert made.stat().st_size == 1 << 20
    monkeypatch.setenv("LABCODE_LIMIT", "0.0001")
    with pytest.raises(InputError, match="unpacks to more than"):
        store.unpacked(packed, ".sqlite")
    assert list(made.parent.iterdir()) == []


def test_a_limit_is_a_number_of_gib(tmp_path: Path) -> None:
    zeros = tmp_path / "a.trace.json.gz"
    zeros.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (1 << 22) + b"]}"))
    said = labcode("--limit", "0.001", "stats", str(zeros))
    assert "a.trace.json.gz: unpacks to more than 0.001 GiB" in one_line(said)
    assert "--limit much: no size; give GiB, such as 64" in one_line(labcode("--limit", "much", "stats", "x"))
