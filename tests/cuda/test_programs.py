"""The CUDA programs build without warnings or spills, and say in one line what is wrong."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from labcode.experiments.lab.report_speed.cuda import program as many_operations
from labcode.experiments.nsys.kernel_overlap.cuda import program as kernel_overlap
from labcode.experiments.nsys.memory_timeline.cuda import program as memory_timeline
from tests.cuda.conftest import (
    ARCHITECTURES,
    BY_CMAKE,
    BY_MAKE,
    COMMON,
    CUDA,
    NEWEST,
    NO_SPILLS,
    PROGRAMS,
    Assemble,
    Built,
)
from tests.cuda.ncu_programs import NO_GPU, run

ALL_PROGRAMS = sorted(path.parent.name for path in CUDA.glob("*/Makefile"))
WRAPPERS = {
    "kernel_overlap": kernel_overlap,
    "many_operations": many_operations,
    "memory_timeline": memory_timeline,
}
SMALL = {
    "kernel_overlap": ["--kernels", "37", "--iterations", "50", "--repetitions", "3", "--blocks", "3"],
    "many_operations": ["--ops", "1003", "--threads", "3", "--repetitions", "2"],
    "memory_timeline": ["--mebibytes", "3", "--iterations", "20", "--repetitions", "2", "--chunks", "7"],
}


@pytest.mark.parametrize("program", [*PROGRAMS, COMMON])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_warnings_or_spills(assembled: Assemble, program: str, architecture: str) -> None:
    report = assembled(program, architecture).report
    stacks = re.findall(r"\d+ bytes stack frame.*", report)
    assert stacks and set(stacks) == {NO_SPILLS}, report


@pytest.mark.parametrize("program", PROGRAMS)
def test_wrapper_knows_the_flags_and_variants(built: Built, program: str) -> None:
    shown = run([built(program), "--help"])
    assert shown.returncode == 0
    flags = set(re.findall(r"^  --([a-z-]+)", shown.stdout, re.MULTILINE))
    assert flags == set(WRAPPERS[program].flags) | {"variant", "json", "list", "help"}
    listed = run([built(program), "--list"])
    assert (listed.returncode, listed.stdout.split()) == (0, list(WRAPPERS[program].variants))


@pytest.mark.parametrize("program", PROGRAMS)
def test_defaults_in_the_wrapper_are_the_programs_own(built: Built, program: str) -> None:
    shown = run([built(program), "--help"]).stdout
    said = dict(re.findall(r"^  --([a-z-]+) .*\n      .*\(default (\S+)\)$", shown, re.MULTILINE))
    for flag, text in WRAPPERS[program].flags.items():
        if said[flag] not in ("0", "-1"):  # those stand for “depends”
            assert text.endswith(f"({said[flag]})"), flag


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--speed", "3"], "--speed: no such flag; --help shows them all"),
        (["--variant", "fast"], "--variant fast: there is no such choice; take one of "),
        (["--repetitions"], "--repetitions: a value is missing; --help shows what it takes"),
        (["--repetitions", "0"], "--repetitions 0: give a whole number from 1 to 1000"),
        (["--repetitions=3x"], "--repetitions 3x: give a whole number from 1 to 1000"),
        (["--seed", "99999999999999999999"], "--seed 99999999999999999999: give a whole number from 0 to "),
    ],
)
def test_bad_flags_are_one_line(built: Built, program: str, arguments: list[str], message: str) -> None:
    done = run([built(program), *arguments])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{program}: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_bad_real_number_is_one_line(built: Built) -> None:
    done = run([built("memory_timeline"), "--balance", "nan"])
    assert (done.returncode, done.stderr) == (
        2,
        "memory_timeline: --balance nan: give a number from 0.01 to 1000\n",
    )


def test_more_operations_than_are_counted_exactly(built: Built) -> None:
    done = run([built("many_operations"), "--ops", "20000000", "--repetitions", "2"])
    message = "many_operations: --ops 20000000 --repetitions 2: together at most 20000000\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_gpu_one_line_and_exit_code_2(built: Built, tmp_path: Path, program: str) -> None:
    done = run([built(program), "--json", tmp_path / "r.json"], env=NO_GPU)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{program}: no NVIDIA GPU: ")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_builds_one_alone(assembled: Assemble) -> None:
    found = assembled(BY_MAKE, NEWEST)
    assert f" {BY_MAKE}.cu -o {os.path.relpath(found.code, CUDA / BY_MAKE)}\n" in found.report
    assert run([found.code, "--list"]).returncode == 0


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize("program", ALL_PROGRAMS)
def test_make_would_build_the_others_alike(tmp_path: Path, program: str) -> None:
    shown = {}
    for name in (BY_MAKE, program):
        done = run(["make", "-n", "-C", CUDA / name, f"BUILD={tmp_path}", "NVCC=nvcc", "ARCH=80"])
        assert done.returncode == 0, done.stderr
        shown[name] = [line for line in done.stdout.splitlines() if line.startswith("nvcc ")]
    assert len(shown[program]) == 1
    assert shown[program][0].endswith(f" {program}.cu -o {tmp_path}/{program}")
    assert shown[program] == [line.replace(BY_MAKE, program) for line in shown[BY_MAKE]]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_leaves_the_program_where_it_is_typed(tmp_path: Path) -> None:
    """``make && ./memory_bandwidth``; with a stand-in for the compiler, in a copy of the folder."""
    compiler = tmp_path / "nvcc"
    compiler.write_text(
        '#!/bin/sh\nfor last; do :; done\nprintf "#!/bin/sh\\necho ran\\n" > "$last"\nchmod +x "$last"\n'
    )
    compiler.chmod(0o755)
    for name in ("common", "memory_bandwidth"):
        shutil.copytree(CUDA / name, tmp_path / name, ignore=shutil.ignore_patterns("build"))
    folder = tmp_path / "memory_bandwidth"
    make = ["make", "-C", folder, f"NVCC={compiler}"]
    for _ in range(2):
        assert run(make).returncode == 0
        assert run([folder / "memory_bandwidth"]).stdout == "ran\n"
    assert "Nothing to be done" in run(make).stdout
    assert run([*make, "clean"]).returncode == 0
    assert not os.path.lexists(folder / "memory_bandwidth")


@pytest.mark.skipif(
    shutil.which("git") is None or not (CUDA.parent / ".git").exists(), reason="no checkout of git"
)
def test_git_ignores_the_links_and_nothing_else_there() -> None:
    names = ["memory_bandwidth", "memory_bandwidth.cu", "Makefile", "CMakeLists.txt", "build/x"]
    paths = [f"cuda/memory_bandwidth/{name}" for name in names]
    ignored = run(["git", "-C", CUDA.parent, "check-ignore", "--no-index", *paths]).stdout.split()
    assert ignored == [paths[0], paths[-1]]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake here")
def test_cmake_knows_them_all_and_builds_one(built: Built) -> None:
    binary = built(BY_CMAKE)
    assert run([binary, "--list"]).returncode == 0
    commands = json.loads((binary.parents[1] / "compile_commands.json").read_text())
    words = {Path(entry["file"]).stem: shlex.split(entry["command"]) for entry in commands}
    assert sorted(words) == sorted(ALL_PROGRAMS)
    for program, command in words.items():
        assert [word.replace(program, BY_CMAKE) for word in command] == words[BY_CMAKE]
        assert {"-O3", "all-warnings"} <= set(command)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("program", "variant", "extra"),
    [
        *(("kernel_overlap", variant, []) for variant in kernel_overlap.variants),
        ("kernel_overlap", "streams", ["--streams", "3"]),
        ("many_operations", "mixed", []),
        ("many_operations", "mixed", ["--threads", "1", "--streams", "1", "--warmup", "0"]),
        *(("memory_timeline", variant, []) for variant in memory_timeline.variants),
        *(("memory_timeline", "pipelined", ["--schedule", s]) for s in ("rotate", "engines")),
        ("memory_timeline", "pipelined", ["--chunks", "1"]),
        ("memory_timeline", "pinned", ["--iterations", "0", "--balance", "2"]),
    ],
)
def test_result_matches_the_host(tmp_path: Path, program: str, variant: str, extra: list[str]) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    done = run([build(program), "--variant", variant, *SMALL[program], *extra, "--json", path])
    assert done.returncode == 0, done.stderr
    record = json.loads(path.read_text())
    assert (record["program"], record["variant"]) == (program, variant)
    assert set(record) == {"program", "variant", "parameters", "results", "checks", "gpu"}
    assert all(check["passed"] for check in record["checks"].values())
    assert record["gpu"]["sm_count"] > 0


@pytest.mark.gpu
def test_too_large_for_the_gpu_is_one_line() -> None:
    from labcode.kernels.build import build

    done = run([build("kernel_overlap"), "--kernels", "100000", "--blocks", "65535", "--threads", "1024"])
    assert done.returncode == 2
    assert "choose a smaller size" in done.stderr
    assert len(done.stderr.splitlines()) == 1
