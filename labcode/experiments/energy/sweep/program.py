"""A program at several clocks or power limits: a command in; a plan out, or, where asked for, its energies.

.. code-block:: text

    python -m labcode.workloads.energy.sweep --variant clocks -- python train.py

prints the commands and changes nothing. ``--really`` runs them, where this user may: each point's limit is
set by ``nvidia-smi``, the program runs beside the power meter, and at the end, however it comes, the limit is
put back as it was. Clocks and limits hold for everybody on this GPU: ask before.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labcode.analysis.energy.summary import summaries
from labcode.ending import signals_as_exceptions
from labcode.errors import LabError, ToolError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.hardware import driver, management
from labcode.record.power import run
from labcode.tools import run_tool

PROGRAM = "sweep"
VARIANTS = ("clocks", "power")
SHARES = (1.0, 0.85, 0.7, 0.55, 0.4)  # of the highest clock, of the power limit
_STEP_MHZ = 15  # between clocks that NVIDIA's GPUs offer
_LIMIT_S = 30.0


@dataclass(frozen=True)
class Plan:
    """The values of a sweep, how each is set, and how the GPU is put back."""

    unit: str
    points: tuple[tuple[int, tuple[str, ...]], ...]
    back: tuple[str, ...]


def plan(variant: str, shares: Sequence[float], gpu: management.ManagedGpu) -> Plan:
    """What a sweep does to a GPU; `ToolError` where it does not say what it can do."""
    smi = ("nvidia-smi", "-i", gpu.bus_id)
    if variant == "clocks":
        if not gpu.max_sm_clock_mhz:
            raise ToolError(f"{gpu.name}: does not tell its highest clock, so there is nothing to plan")
        clocks = [round(share * gpu.max_sm_clock_mhz / _STEP_MHZ) * _STEP_MHZ for share in shares]
        points = tuple((mhz, (*smi, f"--lock-gpu-clocks={mhz},{mhz}")) for mhz in clocks)
        return Plan("MHz", points, (*smi, "--reset-gpu-clocks"))
    if not gpu.power_limit_w:
        raise ToolError(f"{gpu.name}: does not tell its power limit, so there is nothing to plan")
    limits = [round(share * gpu.power_limit_w) for share in shares]
    points = tuple((watts, (*smi, f"--power-limit={watts}")) for watts in limits)
    return Plan("W", points, (*smi, f"--power-limit={gpu.power_limit_w:g}"))


def told(sweep: Plan, command: Sequence[str]) -> list[str]:
    """The plan as commands for a shell."""
    lines = []
    for value, setting in sweep.points:
        log = f"{value}{sweep.unit}.power.json"
        lines += [f"sudo {shlex.join(setting)}", f"labcode energy -o {log} -- {shlex.join(command)}"]
    return [*lines, f"sudo {shlex.join(sweep.back)}"]


def carry_out(sweep: Plan, command: Sequence[str], period_s: float) -> list[dict[str, Any]]:
    """Run the plan: a row a point. The GPU is put back at the end, also after a failure or a signal."""
    rows = []
    try:
        for value, setting in sweep.points:
            _set(setting)
            document = run(command, period_s=period_s, idle_s=1.0)
            if document.exit_code:
                raise ToolError(
                    f"{command[0]}: ended with exit code {document.exit_code} at {value} {sweep.unit}"
                )
            energy = _energy(document)
            rows.append({"value": value, "unit": sweep.unit, **energy})
            print(
                f"  {value} {sweep.unit}: {energy['seconds']:.2f} s, {energy['energy_j']:,.0f} J", flush=True
            )
    finally:
        _set(sweep.back)
    return rows


def _set(words: tuple[str, ...]) -> None:
    """One setting; a `LabError` where this user may not, or the GPU does not know it."""
    done = run_tool(list(words), _LIMIT_S)
    if done.returncode != 0:
        raise LabError(
            f"{shlex.join(words)}: failed ({done.last_line()}); clocks and limits are the administrator's: "
            "ask for the right, or leave --really out to see the plan"
        )


def _first(gpus: Sequence[management.ManagedGpu]) -> management.ManagedGpu:
    """The GPU that CUDA shows first (``CUDA_VISIBLE_DEVICES``), which is the one that is metered."""
    seen = driver.ask().devices
    short = seen[0].bus_id.lower()[-12:] if seen else ""
    return next((gpu for gpu in gpus if short and gpu.bus_id.lower().endswith(short)), gpus[0])


def _energy(document: Any) -> dict[str, float]:
    from pathlib import Path

    from labcode.reports.power.log import log_of

    one = summaries(log_of(document, Path("sweep.power.json")))[0].energy
    return {"seconds": one.seconds, "energy_j": one.counter_j, "error_j": one.error_j}


def shares(text: str) -> list[float]:
    """An argparse type: shares above 0 and up to 1, separated by commas."""
    found = [common.positive(word) for word in text.split(",")]
    if any(share > 1 for share in found):
        raise argparse.ArgumentTypeError(f"{text}: shares are at most 1")
    return found


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "A command at several clocks or power limits: planned, and run only by request.", VARIANTS
    )
    parser.add_argument("--shares", type=shares, default=list(SHARES), help=f"points (default {SHARES})")
    parser.add_argument("--period", type=common.positive, default=0.1, help="seconds between samples (0.1)")
    parser.add_argument("--really", action="store_true", help="set limits and run; needs the right to")
    parser.add_argument("command", nargs="+", help="the program and its arguments, after --")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the plan; with ``--really`` carry it out and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    found = management.read()
    if not found.gpus:
        raise ToolError(f"nothing to plan for: {found.problem or 'no GPU'}")
    gpu = _first(found.gpus)
    sweep = plan(given.variant, given.shares, gpu)
    print(f"# {gpu.name}: the first GPU that programs see here")
    print("\n".join(told(sweep, given.command)))
    if not given.really:
        print("# nothing was changed: this is the plan; --really carries it out, where you may")
        return 0
    with signals_as_exceptions():
        rows = carry_out(sweep, given.command, given.period)
    known = all(row["energy_j"] == row["energy_j"] for row in rows)
    checks = {"energies_known": Check(known, f"{len(rows)} points; each long enough for an energy: {known}")}
    facts = {"shares": given.shares, "command": given.command[0], "period": given.period}
    record = common.Record(
        PROGRAM, given.variant, facts, {"rows": rows}, checks, {"name": found.gpus[0].name}
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
