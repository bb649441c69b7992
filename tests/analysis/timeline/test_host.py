"""Where the time of the host goes, by function of the program."""

import gzip
import json
from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.timeline.host import OWN, _calls, host_lines
from labcode.verbs.report.gather import gather

THREAD = {"pid": 7, "tid": 7}


def event(cat: str, name: str, start_us: float, length_us: float, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": start_us, "dur": length_us, **THREAD, "args": args}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A program that sleeps in a function of its own, multiplies, and computes in Python."""
    frames = [
        ("train.py(1): <module>", 0, 1000),
        ("train.py(8): main", 0, 1000),
        ("train.py(4): load", 100, 600),
        ("<built-in function sleep>", 110, 500),
        ("torch/nn/functional.py(9): linear", 750, 200),
    ]
    events = [event("python_function", n, s, d, **{"Python id": i + 1}) for i, (n, s, d) in enumerate(frames)]
    events.append(event("cpu_op", "aten::linear", 760, 180, **{"External id": 1}))
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    return path


def test_time_belongs_to_the_innermost_function_of_the_program_and_to_what_it_calls(trace: Path) -> None:
    with reports.open(trace) as report:
        table = host_lines(report)
    rows = {(where, calls): ns for where, calls, ns, _ in table.itertuples(index=False, name=None)}
    assert rows[("load, train.py:4", "sleep")] == 500_000
    assert rows[("load, train.py:4", OWN)] == 100_000
    assert rows[("main, train.py:8", "linear, torch/nn/functional.py:9")] == 200_000
    assert rows[("main, train.py:8", OWN)] == 200_000 and sum(rows.values()) == 1_000_000
    assert table["share"].sum() == pytest.approx(1.0) and table["self_ns"].is_monotonic_decreasing


SOURCE = """import time


def load(n):
    total = 0
    for _ in range(n):
        time.sleep(0.5)
{more}    return total
def main(): {rest}
"""


@pytest.mark.parametrize(
    ("more", "rest", "line"),
    [
        ("", "torch.nn.functional.linear(a, b)", 7),
        ("    sleep(1)\n", "...", 4),  # two calls: which of them a trace does not tell
        ("    def late(): sleep(1)\n", "...", 7),  # has a frame of its own
        ("(", "...", 4),  # no Python
    ],
)
def test_the_line_is_that_of_the_only_call_where_the_source_lies_there(
    trace: Path, more: str, rest: str, line: int
) -> None:
    source = SOURCE.format(more=more, rest=rest)

    def where(text: str) -> str:
        (trace.parent / "train.py").write_text(text, encoding="utf-8")
        _calls.cache_clear()
        with reports.open(trace) as report:
            table = host_lines(report)
        return str(table.loc[table["calls"] == "sleep", "where"].item())

    assert where(source) == f"load, train.py:{line}"
    assert where("\n" + source) == "load, train.py:4"  # another version of it


def test_a_report_without_a_gpu_begins_with_what_the_program_waits_for(trace: Path) -> None:
    with gather([trace]) as document:
        assert document.headline == (
            "No GPU in use. Of 1 ms the program spends 50% in sleep, called by load, train.py:4; "
            "20% in its own code, of main, train.py:8; "
            "20% in linear, torch/nn/functional.py:9, called by main, train.py:8.",
            "The operators with the most time of their own: aten::linear 180 µs; of 180 µs in all.",
        )
        titles = [table.title for section in document.sections for table in section.tables]
        assert any(title.startswith("Where the time of the host") for title in titles)


@pytest.mark.parametrize(
    ("threads", "cores", "told"),
    [
        (32, 2, "PyTorch computes with 32 threads on 2 cores, "),
        (1, 8, "PyTorch computes with 1 thread, 8 cores are there"),
        (2, 2, ""),
        (4, 8, ""),
        ("2", 1, ""),  # not as the recorder writes it
    ],
)
def test_threads_that_do_not_fit_the_cores_are_told(
    trace: Path, threads: object, cores: int, told: str
) -> None:
    document = json.loads(gzip.decompress(trace.read_bytes()))
    document["computing"] = {"threads": threads, "cores": cores}
    trace.write_bytes(gzip.compress(json.dumps(document).encode()))
    with gather([trace]) as found:
        lines = [line.removeprefix("No GPU in use. ") for line in found.headline]
        said = [line for line in lines if "PyTorch computes" in line]
    assert len(said) == bool(told) and all(line.startswith(told) for line in said)


@pytest.mark.parametrize(
    ("types", "sizes", "told"),
    [
        (["double", "double"], [[8, 8], [8, 8]], True),
        (["float", "Scalar"], [[8, 8], []], False),
        (["float", "double"], [[8, 8], []], False),  # times a number of Python's
    ],
)
def test_operators_in_float64_are_told(
    tmp_path: Path, types: list[str], sizes: list[list[int]], told: bool
) -> None:
    """Two operators of the same length, one with other types."""
    events = [
        event(
            "cpu_op",
            "aten::mm",
            100 * at,
            90,
            **{"External id": at, "Input type": kinds, "Input Dims": sizes},
        )
        for at, kinds in enumerate((types, ["float", "float"]), start=1)
    ]
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    with gather([path]) as document:
        lines = [line.removeprefix("No GPU in use. ") for line in document.headline]
        said = [line for line in lines if "float64" in line]
    assert len(said) == told and all(line.startswith("50% of the operators’ time") for line in said)


def test_comprehensions_and_what_is_built_in_count_for_the_function_around_them(tmp_path: Path) -> None:
    frames = [
        ("train.py(8): main", 0, 1000),
        ("train.py(4): clean", 100, 700),
        ("train.py(5): <genexpr>", 150, 600),
        ("<built-in method get of dict object at 0x7f>", 200, 400),
        ("<built-in method read of _io.FileIO object at 0x7f>", 610, 90),
        ("<built-in method tanh of type object at 0x7f>", 850, 100),
    ]
    events = [event("python_function", n, s, d, **{"Python id": i + 1}) for i, (n, s, d) in enumerate(frames)]
    events.append(event("cpu_op", "aten::tanh", 860, 80, **{"External id": 1}))
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    with reports.open(path) as report:
        table = host_lines(report)
    rows = {(where, calls): ns for where, calls, ns, _ in table.itertuples(index=False, name=None)}
    assert rows == {
        ("clean, train.py:4", OWN): 610_000,
        ("clean, train.py:4", "read"): 90_000,
        ("main, train.py:8", "tanh"): 100_000,
        ("main, train.py:8", OWN): 200_000,
    }


def test_what_comes_before_the_optimizers_first_update_is_no_part_of_the_loop(tmp_path: Path) -> None:
    """Files are written once, for long; in the loop they are read."""
    frames = [("train.py(20): main", 0, 1000), ("train.py(2): prepare", 0, 600)]
    frames.append(("<built-in method write of _io.FileIO object at 0x7f>", 0, 600))
    marks = []
    for step in range(5):
        at = 600 + 80 * step
        frames += [
            ("train.py(4): load", at, 50),
            ("<built-in method read of _io.FileIO object at 0x7f>", at, 40),
        ]
        marks.append(event("user_annotation", "Optimizer.step#SGD.step", at + 70, 10))
    events = [event("python_function", n, s, d, **{"Python id": i + 1}) for i, (n, s, d) in enumerate(frames)]
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events + marks}).encode()))
    with gather([path]) as document:
        assert document.headline[0].startswith(
            "No GPU in use. Of 320 µs, 4 iterations after the optimizer’s first update, the program spends "
            "50% in read, called by load, train.py:4; "
        )


def test_what_runs_the_model_comes_last(tmp_path: Path) -> None:
    """The backward pass takes more than a sleep does; the sleep is what can go."""
    frames = [
        ("train.py(8): main", 0, 1000),
        ("torch/_tensor.py(566): backward", 100, 600),
        ("<built-in function sleep>", 750, 250),
    ]
    events = [event("python_function", n, s, d, **{"Python id": i + 1}) for i, (n, s, d) in enumerate(frames)]
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    with gather([path]) as document:
        assert document.headline[0].startswith(
            "No GPU in use. Of 1 ms the program spends 25% in sleep, called by main, train.py:8; "
        )
        assert document.headline[0].endswith(
            "60% in backward, torch/_tensor.py:566, called by main, train.py:8."
        )


@pytest.mark.parametrize(
    ("length_us", "module", "told"), [(4, "", True), (400, "", False), (4, "net", False)]
)
def test_many_short_operators_of_a_function_are_told(
    tmp_path: Path, length_us: int, module: str, told: bool
) -> None:
    """A loop of the program's own calls 1,200 operators; what a module calls is not its."""
    each = length_us + 2
    frames = [("train.py(8): smooth", 0, 1200 * each)]
    if module:
        frames.append(("torch/nn/modules/module.py(1): _call_impl", 1, 1200 * each - 2))
    events = [event("python_function", n, s, d, **{"Python id": i + 1}) for i, (n, s, d) in enumerate(frames)]
    events += [
        event("cpu_op", "aten::mul", 1 + each * at, length_us, **{"External id": at}) for at in range(1200)
    ]
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    with gather([path]) as document:
        said = [line for line in document.headline if "1,200 operators" in line]
    assert len(said) == told and all("100% of the time smooth, train.py:8 is at" in line for line in said)
