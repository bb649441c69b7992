"""Recordings that a learner made: right ones pass, and of each wrong one it is told what is amiss."""

import gzip
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labcode.grading import grade, jail, sheet
from tests.exercises.support import ROOT, part
from tests.support import exports, stacks

NSYS, NCU, TORCH = "serving-ex30b", "serving-ex31b", "serving-ex32b"
CAPTURES = ROOT / "captures" / "h200"
MADE = {NSYS: "sqlite", NCU: "ncu-rep", TORCH: "trace.json"}


def checks(short: str) -> tuple[sheet.Check, ...]:
    """The checks of a part, whose model need not be opened for them."""
    found = sheet.read(ROOT / "solutions", *part(short)).answers().right["recording"].checks
    assert isinstance(found, tuple)
    return found


def told(short: str, report: Any) -> list[str]:
    return [check.says for check in checks(short) if not check.holds(report)]


def judged(short: str, file: Path) -> str:
    verdict = sheet.read(ROOT / "solutions", *part(short)).judge(f'recording = "{file}"\n')
    return f"{verdict.status}: {' '.join(verdict.details)}"


def timeline(path: Path, **changed: Any) -> Path:
    """Five tokens of 10 ms, each with thirty kernels, as nsys would export them."""
    ms, tokens = 1_000_000, range(5)
    made: dict[str, Any] = {
        "kernels": [
            exports.kernel(10 * ms * n + k * 300_000 + 5_000, 10 * ms * n + k * 300_000 + 90_000)
            for n in tokens
            for k in range(30)
        ],
        "nvtx": [exports.push_pop(10 * ms * n, 10 * ms * n + 9 * ms, f"token {n}") for n in tokens],
        "api": [exports.call(10 * ms * n, 10 * ms * n + 1000) for n in tokens],
    }
    return exports.make_export(path, **{**made, **changed})


def test_the_books_recordings_would_pass() -> None:
    assert judged(NSYS, CAPTURES / "inference_timeline" / "slow.nsys.xz").startswith("passed")
    assert judged(NCU, CAPTURES / "ncu_paged_decode" / "steps.ncu-rep.xz").startswith("passed")
    own = ROOT / "solutions" / "serving" / "ex32_pytorch_profiler" / "b_recording.trace.json.gz"
    assert judged(TORCH, own).startswith("passed")


def test_a_timeline_of_the_tokens_alone_passes(tmp_path: Path) -> None:
    assert judged(NSYS, timeline(tmp_path / "x.sqlite")).startswith("passed")


MS = 1_000_000
EARLY, LATE = exports.kernel(-5 * MS, -4 * MS, "fill"), exports.kernel(60 * MS, 61 * MS, "fill")
TOKENS = [exports.push_pop(10 * MS * n, 10 * MS * n + 9 * MS, f"token {n}") for n in range(5)]
KERNELS = [exports.kernel(10 * MS * n + k * 300_000, 10 * MS * n + k * 300_000 + 90_000)
           for n in range(5) for k in range(30)]  # fmt: skip
SAMPLES = stacks.cpu_samples([(100, ["leaf", "root"])])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kernels": []}, "trace CUDA"),
        ({"nvtx": TOKENS[:2]}, "fewer than 4 whole ranges"),
        ({"nvtx": [*TOKENS[:3], exports.push_pop(30 * MS, None, "token 3")]}, "fewer than 4 whole ranges"),
        ({"kernels": [EARLY, *KERNELS]}, "before the first token"),
        ({"kernels": [*KERNELS, LATE]}, "long after the last token"),
        ({"kernels": KERNELS[:-30]}, "the last token has no kernel"),
        ({"kernels": KERNELS[::10]}, "not the plain loop"),
        ({"api": [exports.call(0, 10, "cudaGraphLaunch_v10000")]}, "launches graphs"),
        ({"extra_sql": SAMPLES}, "stacks were sampled"),
        ({"overheads": [exports.overhead(12 * MS, 14 * MS)]}, "the profiler itself pauses"),
    ],
)
def test_a_wrong_timeline_is_told_what_is_amiss(
    tmp_path: Path, changed: Mapping[str, Any], said: str
) -> None:
    found = judged(NSYS, timeline(tmp_path / "x.sqlite", **changed))
    assert (
        found.startswith("failed") and said in found and ";" not in found.split(said)[0].split("not right")[1]
    )


def launch(function: str, *, readings: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        function=function,
        has=lambda _: readings,
        readings={"dram__bytes_read.sum": 1} if readings else {},
    )


def counters(*functions: str, **changed: Any) -> SimpleNamespace:
    made = {"list": [launch(one) for one in functions], "clock_control": "none", "command": "ncu"}
    return SimpleNamespace(**{**made, **changed})


ASKED = ("pages", "tensor", "split")


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (counters("pages"), ["pages, tensor and split are not all in it"]),
        (counters(*ASKED, "pages"), ["a step is in it more than once"]),
        (counters(*ASKED, "fill"), ["kernels that are no step"]),
        (counters(*ASKED, clock_control="base"), ["the clock was held at its base"]),
        (
            counters(*ASKED, list=[launch(one, readings=False) for one in ASKED]),
            ["no duration in it", "no bytes of the DRAM"],
        ),
        (counters(*ASKED, command="ncu --replay-mode application"), ["the whole program was run again"]),
        (counters(*ASKED), []),
    ],
)
def test_counters(report: SimpleNamespace, said: list[str]) -> None:
    found = told(NCU, report)
    assert len(found) == len(said)
    assert all(one.startswith(begin) for one, begin in zip(found, said, strict=True))


def event(category: str, name: str, begin: float, long: float, **more: Any) -> dict[str, Any]:
    where = {"pid": 0, "tid": 7} if category in ("kernel", "gpu_memcpy") else {"pid": 9, "tid": 9}
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": long, **where, "args": more}


def trace(path: Path, *, tokens: int = 4, extra: tuple[dict[str, Any], ...] = (), without: str = "") -> Path:
    """Tokens of 1 ms, each a step of the profiler, with an operator and its kernel."""
    events = list(extra)
    for n in range(tokens):
        begin = 1000.0 * n
        events += [
            event("user_annotation", f"ProfilerStep#{n + 4}", begin, 990.0),
            event("user_annotation", f"token {n}", begin + 5, 980.0),
            event("cpu_op", "aten::mm", begin + 10, 50.0, **{"External id": n + 1}),
            event("cuda_runtime", "cudaLaunchKernel", begin + 20, 5.0, correlation=n + 1),
            event("kernel", "gemm", begin + 40, 80.0, correlation=n + 1, device=0, stream=7),
        ]
    kept = [one for one in events if not without or without not in (one["cat"], one["name"][:12])]
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    path.write_bytes(gzip.compress(json.dumps({**head, "traceEvents": kept}).encode(), 1))
    return path


def told_of_trace(file: Path) -> list[str]:
    from labcode.reports.kineto.report import open_trace

    with open_trace(file) as report:
        return told(TORCH, report)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"without": "kernel"}, "record ProfilerActivity.CUDA"),
        ({"without": "cpu_op"}, "record ProfilerActivity.CPU"),
        ({"extra": (event("user_annotation", "warm-up 3", -900, 800),)}, "tokens of the warm-up"),
        ({"tokens": 2}, "not 3 to 8 whole tokens"),
        ({"tokens": 12}, "not 3 to 8 whole tokens"),
        ({"without": "ProfilerStep"}, "the profiler has no steps"),
        ({"extra": (event("python_function", "a.py(3): f", 0, 9, **{"Python id": 1}),)}, "stacks are in it"),
        (
            {"extra": (event("cpu_op", "aten::add", 500, 9, **{"Input Dims": [[3, 4], []]}),)},
            "shapes are in it",
        ),
    ],
)
def test_a_trace(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    found = told_of_trace(trace(tmp_path / "x.trace.json.gz", **changed))
    assert len(found) == bool(said) and all(said in one for one in found), found


def test_a_recording_of_the_book_or_from_elsewhere_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise, one = part(NSYS)
    file = tmp_path / one.file
    given = CAPTURES / "inference_timeline" / "slow.nsys.xz"
    file.write_text(f'recording = "{given}"\n', encoding="utf-8")
    verdict = grade.grade(exercise, one, file)
    assert (verdict.status, verdict.headline) == (
        "failed",
        "recording: that one came with the book: record it yourself",
    )
    timeline(tmp_path / "mine.sqlite")
    file.write_text('recording = "mine.sqlite"\n', encoding="utf-8")
    assert grade.grade(exercise, one, file).status == "passed"
    monkeypatch.setattr(jail, "current", lambda: object())
    assert grade.grade(exercise, one, file).status == "passed"
    file.write_text('recording = "../elsewhere.sqlite"\n', encoding="utf-8")
    assert "elsewhere.sqlite lies elsewhere" in grade.grade(exercise, one, file).headline


@pytest.mark.parametrize("packed", [True, False])
def test_a_copy_of_the_books_recording_is_not_ones_own(tmp_path: Path, packed: bool) -> None:
    exercise, one = part(NCU)
    model = CAPTURES / "ncu_paged_decode" / "steps.ncu-rep.xz"
    copy = tmp_path / ("mine.ncu-rep.xz" if packed else "mine.ncu-rep")
    copy.write_bytes(model.read_bytes() if packed else lzma.decompress(model.read_bytes()))
    (tmp_path / one.file).write_text(f'recording = "{copy.name}"\n', encoding="utf-8")
    found = grade.grade(exercise, one, tmp_path / one.file)
    assert (found.status, found.headline) == (
        "failed",
        "recording: that one came with the book: record it yourself",
    )


def spoiled(kind: str, content: bytes) -> bytes:
    return {"empty": b"", "cut": content[: len(content) // 2], "another": b"a note, no recording\n" * 40}[
        kind
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("empty", {NSYS: "empty; the export was interrupted", NCU: "empty; the profiling run was interrupted",
                   TORCH: "empty; record the trace again"}),
        ("cut", {NSYS: "cannot be unpacked", NCU: "cannot be unpacked", TORCH: "the trace breaks off"}),
        ("another", {NSYS: "not an nsys export", NCU: "not a report of Nsight Compute",
                     TORCH: "no trace of torch.profiler"}),
    ],
)  # fmt: skip
def test_a_spoiled_recording_is_told_so(tmp_path: Path, kind: str, said: Mapping[str, str]) -> None:
    """Empty, broken off, or something else: a readable reason each."""
    for short, words in said.items():
        exercise, one = part(short)
        model = sheet.read(ROOT / "solutions", exercise, one).answers().right["recording"].model
        name = f"mine{''.join(model.suffixes)}" if kind != "another" else f"mine.{MADE[short]}"
        (tmp_path / name).write_bytes(spoiled(kind, model.read_bytes()))
        (tmp_path / one.file).write_text(f'recording = "{name}"\n', encoding="utf-8")
        found = grade.grade(exercise, one, tmp_path / one.file)
        assert found.status == "failed" and words in " ".join(found.details), (short, found)


def test_another_tools_recording_is_told_so(tmp_path: Path) -> None:
    exercise, one = part(TORCH)
    trace(tmp_path / "x.trace.json.gz", without="kernel")  # of a program that ran on the CPU
    (tmp_path / one.file).write_text('recording = "x.trace.json.gz"\n', encoding="utf-8")
    assert "no kernel in it" in " ".join(grade.grade(exercise, one, tmp_path / one.file).details)
    (tmp_path / one.file).write_text('recording = "x.nsys-rep"\n', encoding="utf-8")
    (tmp_path / "x.nsys-rep").write_bytes(b"a report of nsys")
    assert "x.nsys-rep" in " ".join(grade.grade(exercise, one, tmp_path / one.file).details)


def test_what_is_no_recording_is_told(tmp_path: Path) -> None:
    exercise, one = part(NSYS)
    file = tmp_path / one.file
    file.write_text('recording = "none.sqlite"\n', encoding="utf-8")
    assert "none.sqlite: no such file" in " ".join(grade.grade(exercise, one, file).details)
