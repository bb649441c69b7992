"""Traces made fit to publish: numbers for processes, files in neutral words, frames that matter."""

import copy
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from labcode.capture import privacy, torch_profile
from labcode.errors import InputError

ROOT = Path("/home/someone/lab")
SITE = "/home/someone/venv/lib/python3.12/site-packages/torch"


def frame(number: int, parent: int | None, name: str) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "python_function",
        "name": name,
        "pid": 4711,
        "tid": 4711,
        "ts": 1.0,
        "dur": 9.0,
        "args": {"Python id": number, "Python parent id": parent, "Ev Idx": 5},
    }


TRACE: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "uuid": "GPU-01234567-89ab-cdef", "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4},
    "trace_id": "67BB4B3DE74D4081A40C0ADB56DE83BC",
    "host_name": "private-host-7",
    "traceName": "/home/someone/out/run.trace.json",
    "baseTimeNanoseconds": 17,
    "traceEvents": [
        {"ph": "M", "name": "process_labels", "ts": 0, "pid": 4711, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_labels", "ts": 0, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {
            "ph": "M",
            "name": "process_sort_index",
            "ts": 0,
            "pid": 4711,
            "tid": 0,
            "args": {"sort_index": 4711},
        },
        {
            "ph": "M",
            "name": "thread_name",
            "ts": 0,
            "pid": 4711,
            "tid": 4711,
            "args": {"name": "thread 4711 (python)"},
        },
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 4711,
            "tid": 4711,
            "ts": 2.5,
            "dur": 4.125,
            "args": {
                "External id": 7,
                "Ev Idx": 3,
                "Record function id": 0,
                "Input Dims": [[2, 3], [3, 4]],
                "Input type": ["float", "float"],
                "Input Strides": [[3, 1]],
                "Concrete Inputs": ["/home/x/y"],
            },
        },
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "MmBackward0",
            "pid": 4711,
            "tid": 4720,
            "ts": 8,
            "dur": 1,
            "args": {},
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": "void gemm<float>(float*)",
            "pid": 0,
            "tid": 7,
            "ts": 3,
            "dur": 2,
            "args": {
                "device": 0,
                "stream": 7,
                "correlation": 11,
                "External id": 7,
                "kernel_file": "/tmp/ab/c.py",
            },
        },
        {"ph": "s", "id": 11, "pid": 4711, "tid": 4711, "ts": 2.5, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": 3, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 4711,
            "tid": 4711,
            "ts": 1,
            "args": {"Bytes": 512, "Addr": 94620160892544, "Device Id": 0},
        },
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 4711,
            "tid": 4711,
            "ts": 2,
            "args": {"Bytes": -512, "Addr": 94620160892544, "Device Id": 0},
        },
        frame(1, None, "/home/someone/lab/labcode/workloads/transformer.py(12): main"),
        frame(2, 1, f"{SITE}/nn/modules/module.py(1779): _call_impl"),
        frame(3, 2, "nn.Module: Linear_0"),
        frame(4, 3, f"{SITE}/nn/modules/linear.py(134): forward"),
        frame(5, 4, "<built-in method linear of type object at 0x7f1234567890>"),
        frame(6, 5, "/home/someone/other/secret_project/model.py(3): attend"),
    ],
}


def scrubbed() -> dict[str, Any]:
    before = copy.deepcopy(TRACE)
    result = torch_profile.scrub_trace(TRACE, ROOT)
    assert before == TRACE
    return result


def by_name(trace: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {event["name"]: event for event in trace["traceEvents"]}


def test_nothing_says_whose_machine_it_was() -> None:
    trace = scrubbed()
    text = json.dumps(trace)
    assert privacy.find([text], ("private-host-7", "someone")) == []
    for word in ("4711", "4720", "host_name", "67BB4B3D", "GPU-0123", "secret_project", "/tmp/ab"):
        assert word not in text
    assert trace["deviceProperties"] == [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
    assert trace["baseTimeNanoseconds"] == 0 and trace["distributedInfo"]["rank"] == 2


def test_processes_and_threads_have_neutral_numbers_and_gpus_keep_theirs() -> None:
    events = scrubbed()["traceEvents"]
    named = by_name(scrubbed())
    first = privacy.FIRST_PID + 2000
    assert (named["aten::mm"]["pid"], named["aten::mm"]["tid"]) == (first, first)
    assert named["MmBackward0"]["tid"] == first + 1
    assert named["thread_name"]["args"] == {"name": f"thread {first} (python)"}
    assert named["process_sort_index"]["args"] == {"sort_index": first}
    kernel = named["void gemm<float>(float*)"]
    assert (kernel["pid"], kernel["tid"], kernel["args"]["correlation"]) == (0, 7, 11)
    flows = [(e["ph"], e["id"], e["pid"], e["tid"]) for e in events if e.get("cat") == "ac2g"]
    assert flows == [("s", 11, first, first), ("f", 11, 0, 7)]


def moved(first_us: float, base_ns: int, began_ns: int | None = None) -> tuple[int, list[float]]:
    """Base and times of a scrubbed trace of three events, the first at ``first_us``, in microseconds."""
    events = [
        {"ph": "M", "name": "process_labels", "ts": 0, "pid": 9, "tid": 0, "args": {"labels": "CPU"}},
        *({"ph": "X", "name": "f", "ts": first_us + t, "dur": 1.0, "pid": 9, "tid": 9} for t in (7.5, 0.0)),
    ]
    trace = {"baseTimeNanoseconds": base_ns, "traceEvents": events}
    clean = torch_profile.scrub_trace(trace, began_ns=began_ns)
    assert torch_profile.scrub_trace(clean) == clean or began_ns
    return clean["baseTimeNanoseconds"], [event["ts"] for event in clean["traceEvents"]]


def test_of_the_time_of_a_recording_the_day_stays() -> None:
    base_ns = 1790857026 * 10**9  # and 51 days: a Saturday in November, at 20:15:36
    day_ns = 1795219200 * 10**9
    assert moved(4430910644362.222, base_ns) == (day_ns, [0, 7.722, 0.222])
    assert moved(4430910644362.0, base_ns) == (day_ns, [0, 7.5, 0.0])
    assert moved(5.25, day_ns) == (day_ns, [0, 7.75, 0.25])


def test_ranks_of_one_run_keep_their_distance() -> None:
    base_ns = 1790857026 * 10**9
    began_ns = base_ns + 4430910644362 * 1000
    assert moved(4430910644462.5, base_ns, began_ns)[1] == [0, 108.0, 100.5]


def test_durations_shapes_and_ids_stay() -> None:
    operator = by_name(scrubbed())["aten::mm"]
    assert (operator["ts"], operator["dur"]) == (1.5, 4.125)
    assert operator["args"] == {
        "External id": 7,
        "Input Dims": [[2, 3], [3, 4]],
        "Input type": ["float", "float"],
    }
    addresses = [e["args"]["Addr"] for e in scrubbed()["traceEvents"] if e["name"] == "[memory]"]
    assert addresses == [0, 0]


def test_frames_have_neutral_files_and_their_callers() -> None:
    frames = [e for e in scrubbed()["traceEvents"] if e.get("cat") == "python_function"]
    assert [(e["name"], e["args"]["Python id"], e["args"]["Python parent id"]) for e in frames] == [
        ("labcode/workloads/transformer.py(12): main", 1, None),
        ("site-packages/torch/nn/modules/module.py(1779): _call_impl", 2, 1),
        ("nn.Module: Linear_0", 3, 2),
        ("site-packages/torch/nn/modules/linear.py(134): forward", 4, 3),
        ("<built-in method linear of type object at 0x7f1234567890>", 5, 4),
        ("model.py(3): attend", 6, 5),
    ]


def test_averages_have_the_names_of_their_trace() -> None:
    names = [event["name"] for event in TRACE["traceEvents"] if event["ph"] == "X"]
    averages = {"schema": 1, "rows": [{"name": name, "calls": 1} for name in names]}
    renamed = [row["name"] for row in torch_profile.scrub_averages(averages, ROOT)["rows"]]
    assert renamed == [event["name"] for event in scrubbed()["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("name", ["run.trace.json", "run.trace.json.gz"])
def test_a_trace_is_scrubbed_beside_its_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = json.dumps(TRACE).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    made = torch_profile.scrub_file(path)
    assert made.name == name.replace("run.", "run.scrubbed.")
    data = made.read_bytes()
    content = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert len(content["traceEvents"]) == len(TRACE["traceEvents"]) and "host_name" not in content


def test_a_memory_history_is_scrubbed_too(tmp_path: Path) -> None:
    frames = [{"file": "/home/someone/model.py", "line": 1, "function": "f"}]
    path = tmp_path / "run.memory.json.xz"
    path.write_bytes(lzma.compress(json.dumps({"schema": 1, "events": [], "frames": frames}).encode()))
    made = torch_profile.scrub_file(path, tmp_path / "out.memory.json.xz")
    assert json.loads(lzma.decompress(made.read_bytes()))["frames"][0]["file"] == "model.py"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b"[1]", "JSON, but neither a trace of torch.profiler nor a memory history"),
        ("a.json", b'{"a": 1}', "JSON, but neither a trace of torch.profiler nor a memory history"),
        ("a.json", b'{"traceEvents": [', "not valid JSON, or cut off"),
        ("a.json.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], "cannot be unpacked"),
        ("a.json.xz", b"no xz", "cannot be unpacked"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        torch_profile.scrub_file(path)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="no such file; check the path"):
        torch_profile.scrub_file(tmp_path / "missing.json")


def test_what_stays_private_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "reduce", lambda text, names=(): text)  # as if a rule failed
    path = tmp_path / "a.json"
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "mail someone@example.com",
        "pid": 1,
        "tid": 1,
        "ts": 0,
        "dur": 1,
    }
    path.write_text(json.dumps({"traceEvents": [event]}))
    with pytest.raises(InputError, match="something private is left after scrubbing, nothing was written"):
        torch_profile.scrub_file(path)
    with pytest.raises(InputError, match="is the input itself"):
        torch_profile.scrub_file(path, path)


def test_memory_histories_and_averages_have_neutral_files() -> None:
    history = {"frames": [{"file": f"{SITE}/nn/functional.py", "line": 2, "function": "gelu"}], "events": []}
    assert torch_profile.scrub_memory(history, ROOT) == {
        "frames": [{"file": "site-packages/torch/nn/functional.py", "line": 2, "function": "gelu"}],
        "events": [],
    }
    averages = {"schema": 1, "rows": [{"name": "read /home/someone/data/x.bin", "calls": 1}]}
    assert torch_profile.scrub_averages(averages)["rows"] == [{"name": "read x.bin", "calls": 1}]
