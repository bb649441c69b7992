"""Capture by PyTorch's recorders: the program is asked, its recordings are filed, carried and checked."""

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from labcode import store
from labcode.analysis.stats.kineto_ops import op_summary
from labcode.capture import archive, catalogue, finishing, privacy, scan, tools, torch_profile, verify
from labcode.capture.catalogue import Experiment, Run
from labcode.capture.job import Job
from labcode.capture.verify import Finding
from labcode.errors import InputError, LabError, ToolError
from labcode.reports.kineto.report import open_trace
from tests.capture.conftest import Lab

PROGRAM = '''"""A program that records itself when asked to."""
import json, os, pathlib, sys

place = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
record = {"program": "program", "results": {"asked": "LABCODE_RECORD" in os.environ}, "checks": {}}
place.write_text(json.dumps(record))
mode = os.environ.get("FAKE_PROGRAM", "")
request = json.loads(os.environ.get("LABCODE_RECORD", "{}"))
if mode == "crash" and request:
    sys.exit("program: small (train) does not fit into the GPU's memory")
if mode == "other torch" and request:
    {"address": 1}["requested_size"]
if request and mode != "silent":
    folder, name = pathlib.Path(request["folder"]), request["name"]
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 1}
    if mode == "private":
        event["name"] = "user=x HOME=/home"
    noise = [os.urandom(3200).hex() for _ in range(800 if mode == "large" and name == "baseline" else 0)]
    ranks = (".rank0", ".rank1") if mode == "ranks" else ("",)
    for rank in ranks if request["tool"] == "torch" else ():
        text = json.dumps({"host_name": "h", "traceEvents": [event, *({**event, "name": n} for n in noise)]})
        (folder / f"{name}{rank}.trace.json").write_text("{" if mode == "broken" else text)
        rows = [{"name": "aten::mm", "calls": request["steps"]}]
        (folder / f"{name}{rank}.averages.json").write_text(json.dumps({"schema": 1, "rows": rows}))
    if request["tool"] == "memory":
        frames = [{"file": "/home/someone/x/model.py", "line": 1, "function": "f"}]
        (folder / f"{name}.memory.json").write_text(json.dumps({"schema": 1, "frames": frames, "events": []}))
'''


@pytest.fixture
def lab(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab.program.write_text(PROGRAM)
    runs = (Run("baseline", tool_args=("--shapes",)), Run("improved"))
    common = ("program", runs, ("program.py",), 1, 20.0)
    made = (
        Experiment("traced", "Operators", "torch", *common, torch_args=("--steps=3",)),
        Experiment("memory", "Allocations", "memory", *common),
    )
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {e.id: e for e in made})
    return lab


def test_a_trace_and_its_averages_are_filed_and_read_back(lab: Lab) -> None:
    assert lab.capture("traced") == 0, lab.printed
    captures = store.load_set("mine")
    record = captures.run("traced", "baseline")
    assert record.tool_args == ("--steps=3", "--shapes")
    assert {file.name for file in record.files} == {
        *("baseline.trace.json.gz", "baseline.averages.json.xz", "baseline.json", "baseline.clean.json"),
    }
    trace = json.loads(gzip.decompress(captures.path_of("traced", "baseline", ".trace.json.gz").read_bytes()))
    assert trace["traceEvents"][0]["name"] == "aten::mm" and "host_name" not in trace
    averages = json.loads(captures.path_of("traced", "baseline", ".averages.json").read_text())
    assert averages["rows"] == [{"name": "aten::mm", "calls": 3}]
    assert not captures.record("traced", "baseline", clean=True)["results"]["asked"]
    recorded = captures.record("traced", "baseline")
    assert recorded["results"]["asked"] and recorded["profiler"]["tool"] == "torch"
    assert recorded["profiler"]["wall_s"] > 0 and recorded["profiler"]["clean_wall_s"] > 0
    assert verify.verify("mine") == []


def test_a_trace_of_each_rank_is_filed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "ranks")
    assert lab.capture("traced") == 0, lab.printed
    names = {file.name for file in store.load_set("mine").run("traced", "improved").files}
    assert {"improved.rank0.trace.json.gz", "improved.rank1.trace.json.gz"} <= names


def test_a_snapshot_of_another_pytorch_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "other torch")
    with pytest.raises(ToolError, match="nothing was captured"):
        lab.capture("traced", "memory")
    assert "memory/baseline: the allocator's snapshot of this PyTorch has no 'requested_size'" in lab.printed
    assert "traced/baseline, recorded: failed with exit code 1 (KeyError" in lab.printed


def test_a_memory_history_is_filed_in_neutral_words(lab: Lab) -> None:
    assert lab.capture("memory") == 0, lab.printed
    history = json.loads(store.load_set("mine").path_of("memory", "baseline", ".memory.json").read_text())
    assert history["frames"] == [{"file": "model.py", "line": 1, "function": "f"}]


def test_an_archive_carries_them(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "ranks")
    assert lab.capture("traced", "memory", archive=lab.archive) == 0, lab.printed
    assert len(archive.add([lab.archive], tmp_path / "elsewhere")) == 2
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "elsewhere"))
    assert verify.verify("mine") == []


def test_the_same_recording_is_the_same_bytes() -> None:
    for packing in (".gz", ".xz"):
        assert torch_profile.pack(b"abc" * 99, packing) == torch_profile.pack(b"abc" * 99, packing)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (
            "crash",
            "traced: failed: traced/baseline, recorded: failed with exit code 1 (program: small (train) does",
        ),
        (
            "silent",
            "traced/baseline: nothing was recorded; the program must use "
            "labcode.experiments.shared.recording",
        ),
        ("broken", "traced/baseline: PyTorch wrote no valid trace.json"),
        ("private", "something private is left in baseline.trace.json.gz, so it was not filed"),
        (
            "large",
            "MiB, more than 2; record fewer steps (--steps=N), or no stacks",
        ),
    ],
)
def test_what_goes_wrong_is_one_line_and_nothing_is_filed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", mode)
    if mode == "private":
        monkeypatch.setattr(privacy, "reduce", lambda text, names=(): text)  # as if a rule failed
        here = lambda job, run: torch_profile.finish(job, run)  # noqa: E731
        monkeypatch.setattr(finishing, "finish", here)
    with pytest.raises(LabError, match="nothing was captured"):
        lab.capture("traced")
    assert message in lab.printed
    assert not (lab.sets / "mine" / "traced").exists()


def test_unknown_options_are_named(tmp_path: Path) -> None:
    for word in ("--colors", "--steps=many", "shapes", "--shapes=2"):
        with pytest.raises(LabError, match=f"{word}: no option of PyTorch's recorders"):
            torch_profile.request_of((word,), tmp_path, "run")


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-12], "damaged", "cannot be unpacked"),
        (gzip.compress(b"not JSON", mtime=0), "damaged", "is not valid JSON"),
        (gzip.compress(b'{"a": "/home/someone/data"}', mtime=0), "private", "an absolute path"),
    ],
)
def test_damaged_and_private_traces_in_a_set_are_found(lab: Lab, data: bytes, kind: str, text: str) -> None:
    assert lab.capture("traced") == 0
    path = lab.sets / "mine" / "traced" / "baseline.trace.json.gz"
    path.write_bytes(data)
    manifest = lab.sets / "mine" / "manifest.json"
    content = json.loads(manifest.read_text())
    entry = content["experiments"]["traced"]["runs"]["baseline"]["files"][path.name]
    entry.update(sha256=store.file_sha256(path), bytes=len(data))
    manifest.write_text(json.dumps(content))
    (finding,) = verify.verify("mine")
    assert isinstance(finding, Finding) and finding.kind == kind and text in finding.text


def test_changed_options_make_a_capture_stale(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.capture("traced") == 0
    changed = replace(catalogue.EXPERIMENTS["traced"], torch_args=("--steps=2",))
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"traced": changed})
    assert [finding.kind for finding in verify.verify("mine")] == ["stale"]


@pytest.mark.slow  # a stand-in is filed above; `tests/analysis/stats/test_kineto_ops.py` compares the numbers
def test_a_real_recording_reads_as_pytorch_says_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    flags = ("--device", "cpu", "--size", "tiny", "--context", "16", "--steps", "2", "--ranges", "record")
    job = Job(
        tool="torch",
        argv=("python", "-m", "labcode.workloads.transformer", "--variant", "train", *flags),
        options=("--shapes", "--stacks", "--memory", "--modules"),
        folder=tmp_path,
        name="run",
        what="test",
        time_limit_s=1800.0,
        cwd=Path(__file__).resolve().parents[2],
    )
    results = [part.run() for part in tools.parts(job, dict)]
    run = tools.measured(job, results, {"clean": 1.0, "recorded": 2.0})
    names = torch_profile.finish(job, run).files
    assert names == ["run.trace.json.gz", "run.averages.json.xz", "run.json", "run.clean.json"]
    said = json.loads(lzma.decompress((tmp_path / "run.averages.json.xz").read_bytes()))["rows"]
    python = any(row["name"].startswith("nn.Module: ") for row in said)  # newer versions count functions, too
    found = op_summary(open_trace(tmp_path / "run.trace.json.gz"), python=python)
    ours = {(row["name"], row["device_type"], row["annotation"]): row for row in found.to_dict("records")}
    assert len(ours) == len(said) > 100
    for row in said:
        mine = ours[row["name"], row["kind"], row["user_annotation"]]
        assert mine["calls"] == row["calls"]
        assert mine["cpu_total_ns"] == round(1000 * row["cpu_total_us"]), row["name"]
        assert mine["cpu_self_ns"] == round(1000 * row["self_cpu_total_us"]), row["name"]


def test_unpacking_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_LARGEST_UNPACKED", 1 << 20)
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(b'"' + b"x" * (2 << 20) + b'"'))
    with pytest.raises(InputError, match="unpacks to more than 1 MiB; refused"):
        scan.look_into(path, "a.trace.json.gz")
