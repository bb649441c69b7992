"""One kernel in several languages: lines counted by one rule, what is missing said, the fastest one kept."""

import sys
from pathlib import Path
from typing import Any

import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.compute.flex_attention import program as flex_attention
from labcode.experiments.compute.languages import candidates as kernels
from labcode.experiments.compute.languages import program as languages
from labcode.experiments.compute.languages.candidates import Candidate
from labcode.experiments.compute.languages.code_lines import cuda_lines, python_lines

PYTHON = '''"""A module."""

SIDE = 4  # used
OTHER = 5


@decorated
def kernel(x):
    """Says what it does
    in two lines."""
    # a comment

    return helper(x) + SIDE


def helper(x):
    return (
        x
    )


def apart(x):
    return OTHER
'''
CUDA = """// A header.
#include "other.cuh"
namespace lab {
constexpr int kSide = 4, kOther = 2;
constexpr int kApart = 5;
struct Shape {
    int rows;  // of them

    int columns;
};
template <typename T>
__device__ T twice(T x) {
    /* not
       code */
    return x + x;
}
template <int kCount = 3>
__global__ void __launch_bounds__(kSide, 1) kernel(Shape s, float* out) {
    for (int i = 0; i < s.rows; ++i) {
        out[i] = twice(out[i]);
    }
}
__global__ void apart(float* out) { out[0] = kApart; }
}  // namespace lab
"""


def test_python_counts_what_the_kernel_reaches() -> None:
    assert python_lines(PYTHON, ["kernel"]) == 1 + 3 + 4
    assert python_lines(PYTHON, ["apart"]) == 3
    assert (
        python_lines(PYTHON.replace("    # a comment\n", "    # a comment\n    # more\n\n"), ["kernel"]) == 8
    )
    with pytest.raises(KeyError, match="nothing is not defined there"):
        python_lines(PYTHON, ["nothing"])


def test_cuda_counts_what_the_kernel_reaches() -> None:
    assert cuda_lines([CUDA], ["kernel"]) == 1 + 4 + 4 + 6
    assert cuda_lines([CUDA], ["apart"]) == 2
    parts = CUDA.partition("template <int")  # in two headers
    halves = [parts[0] + "}", "namespace lab {" + parts[1] + parts[2]]
    assert cuda_lines(halves, ["kernel"]) == cuda_lines([CUDA], ["kernel"])


@pytest.mark.parametrize("task", languages.VARIANTS)
def test_languages_of_tiles_are_shorter_than_cuda(task: str) -> None:
    lines = {name: kernels.lines_of(task, name) for name in kernels.PACKAGES}
    assert lines["cuda"] > 2 * max(lines[name] for name in lines if name != "cuda")
    assert min(lines.values()) > 10


@pytest.mark.parametrize(("language", "package"), [("tilelang", "tilelang"), ("cutile", "cuda.tile")])
def test_a_language_that_is_missing_is_named(
    language: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, kernels.MODULES[language][0], raising=False)
    with pytest.raises(
        ToolError, match=rf"^{language}: cannot be imported here \(.*; `python -m pip install"
    ):
        kernels.module_of(language)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "100"], "--n 100: give a multiple of 128; the kernels have no rest"),
        (["--variant", "attention", "--length", "129"], "--length 129: give a multiple of 128"),
    ],
)
def test_sizes_with_a_rest_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(LabError, match=message):
        languages.main(arguments)


def test_a_language_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        languages.main(["--languages", "cuda,mojo"])
    assert "'mojo' is not one of cuda, triton, tilelang, cutile" in capsys.readouterr().err


def _tried(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Any]) -> languages.Row:
    """`_language` on made-up configurations: an exception, or an error and a time."""

    def build(name: str) -> Any:
        if isinstance(outcomes[name], Exception):
            raise outcomes[name]
        return name

    monkeypatch.setattr(languages, "_error", lambda torch, task, call: outcomes[call][0])
    monkeypatch.setattr(languages, "take_turns", lambda torch, calls, before, n: [[outcomes[calls[0]][1]]])
    monkeypatch.setattr(kernels, "version_of", lambda name: "1.0")
    candidates = [Candidate("tilelang", {"tile": name}, lambda name=name: build(name)) for name in outcomes]  # type: ignore[misc]
    task = languages.Task(lambda name: candidates, {}, None, lambda found: 0.0, 1.0)
    return languages._language(None, task, "product", "tilelang", lambda: None)


def test_the_fastest_right_configuration_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _tried(
        monkeypatch, {"slow": (1e-3, 9.0), "fast": (1e-3, 5.0), "broken": RuntimeError("too large\nat")}
    )
    assert str(row.call) == "fast"
    assert (row.facts["config"], row.facts["right"]) == ({"tile": "fast"}, True)
    assert row.facts["tried"][2] == {"config": {"tile": "broken"}, "left_out": "too large"}


def test_a_wrong_configuration_fails_and_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _tried(monkeypatch, {"wrong": (float("inf"), 1.0), "right": (1e-3, 5.0)})
    assert str(row.call) == "right"
    assert row.facts["right"] is False
    assert "time_us" not in row.facts["tried"][0]


def test_what_does_not_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _tried(monkeypatch, {"one": ToolError("tilelang: cannot be imported here"), "two": RuntimeError()})
    assert (row.call, row.facts["left_out"]) == (None, "tilelang: cannot be imported here")
    assert row.facts["tried"][1]["left_out"] == "RuntimeError"
    assert "right" not in row.facts


def test_an_error_of_the_gpu_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="illegal"):
        _tried(monkeypatch, {"one": RuntimeError("CUDA error: illegal memory access")})


@pytest.mark.parametrize("length", [1, 100, 300])
def test_shares_of_pairs_and_tiles(length: int) -> None:
    documents = flex_attention.document_ids(length, min(5, length), 3)
    assert documents == sorted(documents)
    assert set(documents) == set(range(min(5, length)))

    def near(query: int, key: int) -> bool:
        return 0 <= query - key < 70

    def together(query: int, key: int) -> bool:
        return query >= key and documents[query] == documents[key]

    for seen in (near, together):
        pairs = [(q, k) for q in range(length) for k in range(length) if seen(q, k)]
        tiles = {(q // 128, k // 128) for q, k in pairs}
        found = flex_attention.shares(seen, length)
        assert found == (len(pairs) / length**2, len(tiles) / (-(-length // 128)) ** 2)


def test_more_documents_than_tokens() -> None:
    with pytest.raises(LabError, match="--documents 9: give between 1 and --length 8"):
        flex_attention.main(["--length", "8", "--documents", "9"])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "arguments", [["--n", "384"], ["--variant", "attention", "--length", "384", "--heads", "2"]]
)
def test_right_on_a_gpu(arguments: list[str], tmp_path: Path) -> None:
    assert languages.main([*arguments, "--repetitions", "1", "--json", str(tmp_path / "record.json")]) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("variant", flex_attention.VARIANTS)
def test_masks_are_right_on_a_gpu(variant: str) -> None:
    assert (
        flex_attention.main(["--variant", variant, "--length", "700", "--heads", "2", "--repetitions", "1"])
        == 0
    )
