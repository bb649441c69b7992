"""Many captures and reports at once: the right files, and nothing half-written."""

import io
import json
from pathlib import Path

import pytest

from labcode.errors import InputError, LabError
from labcode.verbs.stats import Asked, available, print_all, write_all
from tests.support import exports as e
from tests.support.command import printed

EVERY = Asked(every=True)


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """Two captures of the same name in two folders; the second has no ranges."""
    files = []
    for folder, ranges in (("a", [e.push_pop(0, 500, "step")]), ("b", [])):
        (tmp_path / folder).mkdir()
        kernels = [e.kernel(100, 200, "f(int)", correlation=1)]
        file = tmp_path / folder / "run.sqlite"
        files.append(e.make_export(file, kernels=kernels, api=[e.call(50, 60, correlation=1)], nvtx=ranges))
    return files


def test_one_file_for_each_capture_and_report(two: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "tables"
    written = write_all(two, ["cuda_gpu_kern_sum", "nvtx_sum"], "csv", out)
    names = ["a-run_cuda_gpu_kern_sum.csv", "a-run_nvtx_sum.csv", "b-run_cuda_gpu_kern_sum.csv"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert sorted(path.name for path in written.files) == names
    assert (out / names[1]).read_text() == printed(two[0], "nvtx_sum")
    (skipped,) = written.skipped
    assert skipped.startswith(f"{two[1]}: the capture holds no NVTX ranges, so there is no nvtx_sum; record")


def test_all_takes_every_report_with_data(two: list[Path], tmp_path: Path) -> None:
    written = write_all(two, EVERY, "json", tmp_path / "tables")
    for file, base in zip(two, ("a-run", "b-run"), strict=True):
        have = {path.name for path in written.files if path.name.startswith(base)}
        assert have == {f"{base}_{name}.json" for name in available(file)}
    assert "nvtx_sum" in available(two[0]) and "nvtx_sum" not in available(two[1])
    assert (
        json.loads((tmp_path / "tables" / "b-run_cuda_gpu_kern_sum.json").read_text())[0]["Name"] == "f(int)"
    )


@pytest.mark.parametrize(
    ("fmt", "suffix"), [("csv", "csv"), ("md", "md"), ("json", "json"), ("table", "txt")]
)
def test_the_format_names_the_files(two: list[Path], tmp_path: Path, fmt: str, suffix: str) -> None:
    (path,) = write_all(two[:1], ["nvtx_sum"], fmt, tmp_path / "t").files
    assert path == tmp_path / "t" / f"run_nvtx_sum.{suffix}"
    assert path.read_text() == printed(two[0], "nvtx_sum", fmt=fmt)


def test_nothing_is_overwritten_without_force(two: list[Path], tmp_path: Path) -> None:
    write_all(two, ["cuda_gpu_kern_sum"], "csv", tmp_path / "t")
    for asked in (["cuda_gpu_kern_sum"], EVERY):
        with pytest.raises(LabError, match=r"a-run_cuda_gpu_kern_sum\.csv: there already"):
            write_all(two, asked, "csv", tmp_path / "t")
    assert len(list((tmp_path / "t").iterdir())) == 2
    assert len(write_all(two, EVERY, "csv", tmp_path / "t", force=True).files) > 2


def test_a_damaged_capture_leaves_nothing(two: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(two[0].read_bytes()[:3000])
    with pytest.raises(InputError, match=r"bad\.sqlite: truncated"):
        write_all([*two, bad], ["cuda_gpu_kern_sum"], "csv", tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_no_data_at_all_is_bad_input(two: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no calls of the OS runtime, so there is no osrt_sum"):
        write_all(two, ["osrt_sum"], "csv", tmp_path / "t")
    empty = e.make_export(tmp_path / "empty.sqlite")
    with pytest.raises(InputError, match=r"empty\.sqlite: no report has data"):
        write_all([empty], EVERY, "csv", tmp_path / "t")
    with pytest.raises(InputError, match=r"empty\.sqlite: no report has data; record some"):
        print_all([empty], EVERY, "csv", io.StringIO())
    assert not (tmp_path / "t").exists()


def test_bad_use(two: list[Path], tmp_path: Path) -> None:
    for function in (
        lambda *a: write_all(*a, tmp_path / "t"),
        lambda *a: print_all(*a, io.StringIO()),
    ):
        with pytest.raises(LabError, match="leave out --report or --all"):
            function(two, Asked(("nvtx_sum",), every=True), "csv")
        with pytest.raises(LabError, match="'nvtx_sums' is not a report; did you mean nvtx_sum"):
            function(two, ["nvtx_sums"], "csv")
        with pytest.raises(LabError, match="'xml' is not a format"):
            function(two, [], "xml")


def test_several_captures_on_the_screen(two: list[Path]) -> None:
    text = io.StringIO()
    print_all(two, ["cuda_gpu_kern_sum"], "csv", text)
    assert text.getvalue() == "\n".join(f"# {f}\n{printed(f, 'cuda_gpu_kern_sum')}" for f in two)
