"""The CUDA programs: a program's name and flags in; built, run with the same flags, its record out.

python -m labcode.workloads.cuda softmax --variant all --columns 8192
"""

import argparse
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import labcode.experiments
from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.kernels.build import build, compute_capability
from labcode.kernels.topics import kernels


@dataclass(frozen=True)
class CudaProgram:
    """A program below ``cuda/``: its name, what it does, its variants, its flags, each with its help.

    The program itself checks the values of its flags.
    """

    PROGRAM: str
    description: str
    variants: tuple[str, ...]
    flags: Mapping[str, str]

    def main(self, arguments: Sequence[str]) -> int:
        """Build the program for this machine's GPU (cached) and run it; its exit code, or a `LabError`."""
        options = self.command_line().parse_args(arguments)
        binary = build(self.PROGRAM, compute_capability())
        sys.stdout.flush()
        with subprocess.Popen([str(binary), *forwarded(options)], env=dict(os.environ)) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        if code < 0:
            print(f"{self.PROGRAM}: ended by signal {-code}", file=sys.stderr)
            return 2
        return code

    def command_line(self) -> argparse.ArgumentParser:
        """A parser for the program's flags."""
        result = common.parser(f"cuda {self.PROGRAM}", self.description, self.variants)
        for flag, text in self.flags.items():
            result.add_argument(f"--{flag}", metavar="X", help=text)
        return result


def forwarded(options: argparse.Namespace) -> list[str]:
    """The command line that passes on what was given."""
    return [
        word
        for name, value in sorted(vars(options).items())
        if value is not None and name != "list"
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def steps(*names: str) -> tuple[str, ...]:
    """The steps of kernels of the catalogue as their program calls them."""
    return tuple(step.variant for kernel in kernels(names) for step in kernel.steps)


_ROW_FLAGS = {
    "type": "type of the elements, float or bf16; the arithmetic is in fp32 (float)",
    "columns": "elements of a row (8192)",
    "rows": "rows; 0: as many as fill --mebibytes (0)",
    "mebibytes": "size of the matrix, in MiB, where --rows is 0 (1024)",
    "offset": "elements by which both matrices start late, to misalign them (0)",
    "repetitions": "timings of each step (15)",
    "seed": "seed of the random numbers (1)",
    "plan": "1: say which kernel each variant takes, and stop; needs no GPU (0)",
}


def of_rows(name: str, title: str) -> CudaProgram:
    """A program that computes something of the rows of a matrix, step by step."""
    return CudaProgram(
        name,
        f"{title} over the rows of a matrix: every step checked, timed and compared with the device copy.",
        ("all", *steps(name)),
        _ROW_FLAGS,
    )


def programs() -> dict[str, CudaProgram]:
    """The CUDA programs of all experiments, by name: what ``cuda.py`` of a folder describes."""
    folders = sorted(path.parent for path in Path(labcode.experiments.__path__[0]).glob("*/*/cuda.py"))
    modules = (
        importlib.import_module(f"labcode.experiments.{folder.parent.name}.{folder.name}.cuda")
        for folder in folders
    )
    return {module.program.PROGRAM: module.program for module in modules}


def main(arguments: Sequence[str]) -> int:
    """Run the program that is named first; its exit code."""
    name, *flags = arguments or ("",)
    known = programs()
    if name in ("-h", "--help"):
        print("usage: python -m labcode.workloads.cuda PROGRAM [flags]; PROGRAM --help says which\n")
        print("\n".join(f"  {program.PROGRAM}: {program.description}" for program in known.values()))
        return 0
    if name not in known:
        raise LabError(f"{name or 'no program named'}: name one of the CUDA programs: {', '.join(known)}")
    return known[name].main(flags)


if __name__ == "__main__":
    common.run("cuda", main)
