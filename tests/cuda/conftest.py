"""What the CUDA programs compile to, once a test run, also where several processes share it.

Tests are skipped where there is no compiler.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from labcode.errors import LabError
from labcode.tools import find_nvcc

CUDA = Path(__file__).resolve().parents[2] / "cuda"
PROGRAMS = ("kernel_overlap", "many_operations", "memory_timeline")
# Binaries that are made by Makefile and CMakeLists.txt, which are like the others'.
BY_MAKE, BY_CMAKE = "kernel_overlap", "many_operations"
WARNINGS = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wshadow")
NEWEST = "90a"
# The oldest (at night) and the newest: what the code asks for by __CUDA_ARCH__ is compiled in one of them.
ARCHITECTURES = (pytest.param("75", marks=pytest.mark.slow), NEWEST)
# The device code is optimized without being asked; what the compiler makes of the host's, nobody looks at.
SAID = ("-Xptxas", "-v", "-O0")
FLAGS = ("-std=c++17", *WARNINGS, *SAID)
# What is compiled as one source, for the headers of CUDA and C++ take longer than most programs. Those with
# the fewest headers come first: what they forget to include, no other has included before them.
LADDERS = (
    *("host_checks", *PROGRAMS, "transpose", "memory_bandwidth", "rmsnorm", "softmax", "sum"),
    *("optimization_loop", "roofline_kernels", "compute_metrics", "energy", "exercises_ncu"),
)
PRODUCTS = ("gemm", "attention", "paged_decode", "instances")
LAUNCHED = ("decode", "fp8")  # kernels without a program of their own, which instances.cu names
NO_SPILLS = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
COMMON = "common"  # stands for the kernels that belong to none of the programs
KERNEL = re.compile(
    r"ptxas info +: Compiling entry function '(\w+)'.*\n.*Function properties.*\n.*\n"
    r".*: Used .*\n(?:.*Compile time.*\n)?"
)


@dataclass(frozen=True)
class Assembled:
    """A file with a program's device code at full optimization; what the assembler said of its kernels."""

    code: Path
    report: str


Built = Callable[[str], Path]
Assemble = Callable[[str, str], Assembled]


@pytest.fixture(scope="session")
def nvcc() -> Path:
    try:
        compiler = find_nvcc()
    except LabError as error:
        pytest.skip(str(error))
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("no C++ compiler for nvcc to use")
    return compiler


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pytest's cache for these compilers, flags and sources; those of others are removed."""
    key = hashlib.sha256()
    for compiler in filter(None, map(shutil.which, ("nvcc", "g++"))):
        key.update(subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout)
    here = Path(__file__).parent
    kinds = (
        *map(CUDA.rglob, ("*.cu*", "*.h*", "*.mk", "*.cmake")),
        *map(here.glob, ("*.?pp", "*.cu", "*.py")),
    )
    for source in sorted(chain.from_iterable(kinds)):
        key.update(source.name.encode() + source.read_bytes())
    cache = getattr(request.config, "cache", None)
    if cache is None:  # pytest -p no:cacheprovider
        return tmp_path_factory.mktemp("cuda")
    folder: Path = cache.mkdir(f"cuda-{key.hexdigest()[:16]}")
    for other in folder.parent.glob("cuda-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


@pytest.fixture(scope="session")
def together(nvcc: Path, compiled: Path) -> Assemble:
    """The programs that are one source and their device code, for an architecture."""

    @cache
    def compile_all(group: str, architecture: str) -> Assembled:
        names = {"ladders": LADDERS, "products": PRODUCTS, "gemm": ("gemm",)}[group]
        target = compiled / f"{group}-{architecture}"
        command = [nvcc, *FLAGS, f"-gencode=arch=compute_{architecture},code=sm_{architecture}", f"-I{CUDA}"]
        if architecture == NEWEST:
            names = tuple(name for name in names if name not in _alone())
        else:
            command.append("-cubin")
        source = target.with_name(f"{target.name}.cu")
        prepare = partial(source.write_text, _one(names), encoding="utf-8")
        return Assembled(target, once(target, [*command, source, "-o", target], prepare))

    return compile_all


@pytest.fixture(scope="session")
def built(nvcc: Path, compiled: Path, together: Assemble) -> Built:
    """The binary of a program (of cuda/, or a .cu file beside the tests), for compute capability 9.0."""

    said = ("env", f"NVCC_APPEND_FLAGS={' '.join(SAID)}")  # the last -O is the one that counts

    @cache
    def build(name: str) -> Path:
        target = compiled / name
        if name not in _alone():
            whole = together("products" if name in PRODUCTS else "ladders", NEWEST).code
            once(target, ["ln", "-s", whole, target])
        elif name == BY_MAKE:
            build_in = os.path.relpath(compiled, CUDA / name)  # make takes no space in a path
            once(target, [*said, "make", "-C", CUDA / name, f"BUILD={build_in}", f"NVCC={nvcc}"])
        else:
            folder = compiled / "cmake"
            given = {"COMPILER": nvcc, "COMPILER_WORKS": "ON"}
            options = [f"-DCMAKE_CUDA_{key}={value}" for key, value in given.items()]
            options += ["-DCMAKE_CXX_COMPILER_WORKS=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
            once(folder, ["cmake", "-S", CUDA, "-B", folder, *options])
            once(target, [*said, "cmake", "--build", folder, "--target", name])
            return folder / name / name
        return target

    return build


@pytest.fixture(scope="session")
def assembled(built: Built, compiled: Path, together: Assemble) -> Assemble:
    """The device code of a program, as above, for an architecture; for the newest, its binary's."""

    @cache
    def assemble(name: str, architecture: str) -> Assembled:
        if architecture == NEWEST and name in _alone():
            return Assembled(built(name), _log(compiled / name).read_text())
        group = "ladders" if name in (*LADDERS, COMMON) else "products" if architecture == NEWEST else name
        whole = together(group, architecture)

        def own(kernel: re.Match[str]) -> str:
            found = re.match(
                rf"_ZN(?:3lab)?\d+({'|'.join((*LADDERS, *PRODUCTS, 'decode', 'fp8'))})", kernel[1]
            )
            return kernel[0] if (found[1] if found else COMMON) == name else ""

        return Assembled(whole.code, KERNEL.sub(own, whole.report))

    return assemble


def _alone() -> set[str]:
    """The programs that are built by themselves, with a tool that is here."""
    return {name for name, tool in ((BY_MAKE, "make"), (BY_CMAKE, "cmake")) if shutil.which(tool)}


def _one(names: Sequence[str]) -> str:
    """Programs as one source, each in a namespace; which one runs, the name says that it is called by."""
    text = calls = ""
    for name in names:
        path = Path(__file__).with_name(f"{name}.cu")
        program = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not program:
            path = CUDA / name / f"{name}.cu"
            program = path.read_text(encoding="utf-8").replace('#include "', f'#include "{path.parent}/')
        end = program.index("\n", program.rindex("#include")) + 1
        line = f'#line {program.count(chr(10), 0, end) + 1} "{path}"'
        text += f"{program[:end]}namespace {name} {{\n{line}\n{program[end:]}}}  // namespace {name}\n"
        if "int main(" in program:
            calls += f'    if (called == "{name}") return {name}::main(argc, argv);\n'
    begin = "const std::string called = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1);"
    main = f"int main(int argc, char** argv) {{\n    {begin}\n{calls}    return argc;\n}}\n"
    return f"{text}#include <string>\n{main}"


def once(target: Path, command: Sequence[Any], prepare: Callable[[], object] = lambda: None) -> str:
    """Make a file by a command unless another process did; what the command said."""
    log = _log(target)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.is_file():
            prepare()
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            log.write_text(done.stderr + done.stdout)
        return log.read_text()


def _log(target: Path) -> Path:
    return target.with_name(f"{target.name}.log")
