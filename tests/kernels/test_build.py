"""Building the CUDA programs: what is cached, what is said when it fails, nothing left half-written."""

from pathlib import Path

import pytest

from labcode import tools
from labcode.errors import LabError, ToolError
from labcode.kernels import build as building
from labcode.kernels.build import architecture_flag, build, source_files
from tests.support.programs import program

HOPPER = (9, 0)
COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "release ${VERSION:-13.0}"; exit 0; fi
echo "$@" >> "$LOG"
if [ -n "$FAIL" ]; then echo "some warning"; echo "kernel.cu(3): error: no such thing" >&2; exit 2; fi
while [ "$1" != -o ]; do shift; done
echo built > "$2"
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout with one program, a compiler that only keeps a log, and an empty cache."""
    root = tmp_path / "lab"
    for name, text in {
        "common/check.cuh": "// check\n",
        "thing/thing.cu": '#include "../common/check.cuh"\n',
    }.items():
        (root / "cuda" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cuda" / name).write_text(text)
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(compiler))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("LABCODE_HOME", str(root))
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    return root


def compilations(checkout: Path) -> list[str]:
    log = checkout.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_builds_once(checkout: Path) -> None:
    first, second = build("thing", HOPPER), build("thing", HOPPER)
    assert first == second
    assert first.read_text() == "built\n"
    assert len(compilations(checkout)) == 1
    assert "-gencode=arch=compute_90a,code=sm_90a" in compilations(checkout)[0]


@pytest.mark.parametrize("changed", ["common/check.cuh", "thing/thing.cu"])
def test_builds_again_when_a_source_changed(checkout: Path, changed: str) -> None:
    first = build("thing", HOPPER)
    (checkout / "cuda" / changed).write_text("int changed;\n")
    assert build("thing", HOPPER) != first
    assert len(compilations(checkout)) == 2


def test_builds_again_for_another_gpu_and_another_compiler(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = {build("thing", HOPPER), build("thing", (8, 0))}
    monkeypatch.setenv("VERSION", "13.1")
    binaries.add(build("thing", HOPPER))
    assert len(binaries) == 3


def test_failed_build_is_one_line_and_leaves_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(ToolError) as error:
        build("thing", HOPPER)
    assert str(error.value) == "nvcc: could not build thing: kernel.cu(3): error: no such thing"
    assert not [path for path in (checkout.parent / "cache").rglob("*") if path.is_file()]


def test_missing_compiler(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDACXX")
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(
        ToolError, match=r"^nvcc: not found; install the CUDA toolkit and put nvcc on the PATH"
    ):
        build("thing", HOPPER)


def test_compiler_that_does_not_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = program(checkout.parent / "bin" / "broken", "echo lost a library >&2\nexit 127")
    monkeypatch.setenv("CUDACXX", str(broken))
    with pytest.raises(
        ToolError, match=r"broken: does not run \(lost a library\); reinstall the CUDA toolkit"
    ):
        build("thing", HOPPER)


def test_compiler_that_takes_too_long(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = checkout.parent / "bin" / "nvcc"
    slow.write_text(COMPILER.replace("echo built", "exec sleep 5; echo built"))
    monkeypatch.setattr(building, "_TIMEOUT_S", 0.3)
    with pytest.raises(ToolError, match=r"^nvcc: took longer than 0.3 s to build thing"):
        build("thing", HOPPER)


def test_unknown_program_names_its_folder(checkout: Path) -> None:
    with pytest.raises(LabError, match=r"cuda/nothing: there is no program of this name"):
        source_files("nothing")


def test_unwritable_cache_is_one_line(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = checkout.parent / "file"
    blocked.write_text("")
    monkeypatch.setenv("LABCODE_CACHE", str(blocked))
    with pytest.raises(ToolError, match=r"file/bin/.*Not a directory"):
        build("thing", HOPPER)


@pytest.mark.parametrize(
    ("capability", "flag"),
    [
        ((7, 5), "-gencode=arch=compute_75,code=sm_75"),
        ((8, 9), "-gencode=arch=compute_89,code=sm_89"),
        ((9, 0), "-gencode=arch=compute_90a,code=sm_90a"),
        ((12, 0), "-gencode=arch=compute_120a,code=sm_120a"),
    ],
)
def test_architecture_flag(capability: tuple[int, int], flag: str) -> None:
    assert architecture_flag(capability) == flag


def test_gpu_that_is_too_old_is_one_line() -> None:
    with pytest.raises(LabError, match=r"compute capability 7.0; the programs are built for 7.5 and newer"):
        architecture_flag((7, 0))
