"""`labcode flame`: the four kinds of files, and bad use in one line."""

import json
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.store import sets_root
from labcode.verbs.flame import write_flame
from tests.support import exports as e
from tests.support import stacks as s
from tests.support.traces import Trace

OWN = "labcode/workloads/models/loaders.py"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with Python samples of two threads and CPU samples of one."""
    return e.make_export(
        tmp_path_factory.mktemp("flame") / "a.sqlite",
        nvtx=[e.push_pop(0, 1000, "lab:measured")],
        threads=[e.thread(100, 100, "python3"), e.thread(100, 101, "loader")],
        extra_sql=[
            *s.cpu_samples([(10, ["leaf", "main"])]),
            *s.python_stacks([(10, [("f", OWN, 1), ("main", OWN, 5)]), (5000, [("late", OWN, 6)])]),
            *s.python_stacks([(20, [("load", OWN, 6)])], tid=101, domain=8),
        ],
    )


def test_the_suffix_decides(capture: Path, tmp_path: Path) -> None:
    text = write_flame(capture, tmp_path / "a.txt").read_text()
    assert text == f"load ({OWN}) 1\nmain ({OWN});f ({OWN}) 1\n"
    assert json.loads(write_flame(capture, tmp_path / "a.json", of="cpu").read_text())["name"].endswith(
        "CPU samples"
    )
    assert b"<svg" in write_flame(capture, tmp_path / "a.svg").read_bytes()
    pytest.importorskip("bokeh")
    assert "a.sqlite: Python samples" in write_flame(capture, tmp_path / "a.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json", "a.svg", "a.txt"]


@pytest.mark.parametrize("thread", ["loader", "101"])
def test_one_thread_by_name_or_number(capture: Path, tmp_path: Path, thread: str) -> None:
    made = write_flame(capture, tmp_path / "a.txt", thread=thread)
    assert made.read_text() == f"load ({OWN}) 1\n"


def test_a_window(capture: Path, tmp_path: Path) -> None:
    samples = e.make_export(tmp_path / "b.sqlite", extra_sql=s.cpu_samples([(10, ["leaf"])]))
    assert write_flame(samples, tmp_path / "b.txt", of="cpu").read_text() == "leaf 1\n"
    assert "late" in write_flame(capture, tmp_path / "a.txt", window="all").read_text()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.png", {}, r"a\.png: \.png is not a kind of flame graph; name a file that ends in \.svg"),
        ("no/a.svg", {}, "there is no folder"),
        ("a.svg", {"of": "gpu"}, "--of gpu: choose one of python, cpu, launches"),
        ("a.svg", {"of": "launches"}, "holds no Python backtraces of CUDA calls; record them with"),
        ("a.svg", {"of": "launches"}, "; what it has is drawn with --of python or cpu"),
        ("a.svg", {"thread": "x"}, r"no samples of a thread x; there are some of 100 \(python3\)"),
        ("a.svg", {"window": "500ns..900ns"}, "no samples in this window"),
    ],
)
def test_bad_use_is_named_and_writes_nothing(
    capture: Path, tmp_path: Path, name: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(LabError, match=said):
        write_flame(capture, tmp_path / name, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("of", "said"), [("cpu", "CPU samples"), ("python", "Python samples")])
def test_a_capture_without_samples_is_told_how_to_record_them(tmp_path: Path, of: str, said: str) -> None:
    bare = e.make_export(tmp_path / "bare.sqlite", nvtx=[e.push_pop(0, 1000, "lab:measured")])
    with pytest.raises(LabError, match=rf"bare\.sqlite: holds no {said}; record them with nsys profile --"):
        write_flame(bare, tmp_path / "a.svg", of=of)
    assert [path.name for path in tmp_path.iterdir()] == ["bare.sqlite"]


def test_a_shipped_capture_without_samples(tmp_path: Path) -> None:
    file = sets_root() / "h200/timeline_basics/baseline.nsys.xz"
    with pytest.raises(LabError, match=r"holds no CPU samples; record them with .* --sample=process-tree"):
        write_flame(file, tmp_path / "a.svg", of="cpu")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """main calls a module of which one kernel is launched, and then waits."""
    made = Trace()
    main = made.python(f"{OWN}(5): main", 0, 1_000)
    net = made.python("nn.Module: Net_0", 100, 600, main, module=0)
    made.python(f"{OWN}(9): forward", 150, 550, net)
    made.kernel(
        "gemm", 700, 950, made.call("cudaLaunchKernel", 250, 300, external=made.op("aten::mm", 200, 400))
    )
    return made.write(tmp_path / "a.trace.json")


def test_stacks_of_a_trace(trace: Path, tmp_path: Path) -> None:
    own = f"main ({OWN})"
    found = {
        of: write_flame(trace, tmp_path / "a.txt", of=of, window="all").read_text()
        for of in ("python", "cpu", "modules")
    }
    assert (
        found["python"]
        == f"{own} 500\n{own};Net_0 (nn.Module);forward ({OWN}) 400\n{own};Net_0 (nn.Module) 100\n"
    )
    inner = f"{own};Net_0 (nn.Module);forward ({OWN});aten::mm"
    assert f"{inner} 150\n" in found["cpu"] and f"{inner};cudaLaunchKernel 50\n" in found["cpu"]
    assert found["modules"] == "Net_0 (nn.Module);gemm 250\n"
    measured = write_flame(trace, tmp_path / "a.txt").read_text()  # from the operator to the kernel
    assert measured == f"{own} 350\n{own};Net_0 (nn.Module);forward ({OWN}) 350\n{own};Net_0 (nn.Module) 50\n"
    assert (
        json.loads(write_flame(trace, tmp_path / "a.json").read_text())["profiles"][0]["unit"]
        == "nanoseconds"
    )


def test_a_trace_without_stacks(tmp_path: Path) -> None:
    bare = Trace()
    bare.op("aten::mm", 0, 100)
    file = bare.write(tmp_path / "b.trace.json")
    with pytest.raises(LabError, match=r"b\.trace\.json: holds no Python functions .*with_stack=True"):
        write_flame(file, tmp_path / "b.svg")
    with pytest.raises(LabError, match=r"--of launches: choose one of python, cpu, modules"):
        write_flame(file, tmp_path / "b.svg", of="launches")
    with pytest.raises(LabError, match=r"nothing of a thread 7; there is something of"):
        write_flame(file, tmp_path / "b.svg", of="cpu", thread="7", window="all")
    assert [path.name for path in tmp_path.iterdir()] == ["b.trace.json"]
