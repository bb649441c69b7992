"""What the tests of the Nsight Compute programs share: compiling, and reading what was made of it."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

NO_GPU = os.environ | {"CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Resources:
    """What the assembler says of a kernel."""

    registers: int
    spilled_bytes: int


def run(command: Sequence[Any], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(x) for x in command], capture_output=True, text=True, check=False, **options)


def resources(report: str) -> dict[str, Resources]:
    """Registers and spilled bytes of a program's kernels, by demangled-enough name (“chase<200,1>”)."""
    found = re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?"
        r"Used (\d+) registers",
        report,
        re.DOTALL,
    )
    assert found, report
    return {short(name): Resources(int(used), int(out) + int(back)) for name, out, back, used in found}


def short(mangled: str) -> str:
    """“_ZN3lab15compute_metrics5chaseILi200ELb1EEEv…” → “chase<200,1>”; types by their last name."""
    rest, names = mangled.removeprefix("_ZN"), []
    while (number := re.match(r"(\d+)", rest)) is not None:
        rest = rest[number.end() :]
        names.append(rest[: int(number[1])])
        rest = rest[int(number[1]) :]
    arguments = re.match(r"I((?:L[a-z]\d+E|LNS\d*_\d+[A-Za-z]+E\d+E|NS\d*_\d+[A-Za-z]\w*?E|[a-z])+)E", rest)
    if arguments is None:
        return names[-1]
    parts = re.findall(
        r"L[a-z](\d+)E|LNS\d*_\d+[A-Za-z]+E(\d+)E|NS\d*_\d([A-Za-z]\w*?)E|([a-z])", arguments[1]
    )
    return f"{names[-1]}<{','.join(''.join(part) for part in parts)}>"


def check_wrapper(binary: Path, wrapper: ModuleType) -> None:
    """The Python wrapper knows the program's flags, their defaults and its variants."""
    shown = run([binary, "--help"]).stdout
    flags = dict(re.findall(r"^  --([a-z0-9-]+) .*\n      .*\(default (\S+)\)$", shown, re.MULTILINE))
    assert set(flags) - {"variant"} == set(wrapper.flags)
    for flag, text in wrapper.flags.items():
        assert text.endswith(f"({flags[flag]})"), flag
    assert run([binary, "--list"]).stdout.split() == list(wrapper.variants)


def check_bad_use(binary: Path, folder: Path) -> None:
    """Bad flags and a missing GPU are one line and exit code 2."""
    name = binary.name
    for arguments, message in (
        (["--speed", "3"], "--speed: no such flag; --help shows them all"),
        (["--variant", "fast"], "--variant fast: there is no such choice; take one of "),
        (["--repetitions", "0"], "--repetitions 0: give a whole number from 1 to 1000"),
        (["--json", str(folder / "r.json")], "no NVIDIA GPU: "),
    ):
        done = run([binary, *arguments], env=NO_GPU)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{name}: {message}")
        assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []
