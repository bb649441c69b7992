"""Wrapping: a CUDA program's name and flags in; built and run with the same flags, its exit code out."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from labcode.kernels.build import build, compute_capability
from labcode.workloads.shared.common import parser


def command_line(
    program: str, description: str, variants: Sequence[str], flags: Mapping[str, str]
) -> argparse.ArgumentParser:
    """A parser for a CUDA program's flags (``flags``: each with its help); the program checks the values."""
    result = parser(program, description, variants)
    for flag, text in flags.items():
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


def run_program(program: str, options: argparse.Namespace) -> int:
    """Build the program for this machine's GPU (cached) and run it; its exit code, or a `LabError`."""
    capability = compute_capability()
    binary = build(program, capability)
    sys.stdout.flush()
    environment = dict(os.environ)
    with subprocess.Popen([str(binary), *forwarded(options)], env=environment) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if code < 0:
        print(f"{program}: ended by signal {-code}", file=sys.stderr)
        return 2
    return code
