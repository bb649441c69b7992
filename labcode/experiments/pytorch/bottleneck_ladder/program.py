"""What each planted problem of `bottleneck_hunt` really costs: flags in, a JSON record of step times out.

The loop is run with all problems, with all but one of them (each in turn), with one alone, and with fewer and
fewer: the order of ``--order``, the first name mended first. Nothing is recorded meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from labcode.experiments.pytorch.bottleneck_hunt import program as hunt
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check

PROGRAM = "bottleneck_ladder"


def rungs(order: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """(kind, the problem it is about, the problems in the loop) of each run.

    Kinds: ``all``; ``without`` one; ``only`` one; ``mended``: that one and those before it in the order gone.
    """
    everything = tuple(order)
    return [
        ("all", "", everything),
        *(("without", one, tuple(p for p in everything if p != one)) for one in everything),
        *(("only", one, (one,)) for one in everything),
        *(("mended", one, everything[place + 1 :]) for place, one in enumerate(everything)),
    ]


def measure(torch: Any, given: argparse.Namespace, device: Any) -> tuple[list[dict[str, Any]], list[float]]:
    """Every rung: rows of kind, problem, step_ms; and how far its losses lie from those without problems."""
    plain = hunt.train(torch, given, (), device, measured=False)  # also warms up
    rows, apart = [], []
    for kind, problem, problems in rungs(given.order.split(",")):
        outcome = hunt.train(torch, given, frozenset(problems), device, measured=False)
        apart.append(hunt.apart(outcome.losses, plain.losses))
        rows.append({"kind": kind, "problem": problem, "step_ms": round(outcome.total_ms / given.steps, 4)})
        print(f"  {kind} {problem}: {rows[-1]['step_ms']:.3f} ms a step", flush=True)
    return rows, apart


def _order(text: str) -> str:
    """An argparse type: all problems in some order."""
    if sorted(text.split(",")) != sorted(hunt.PROBLEMS):
        raise argparse.ArgumentTypeError(f"name each problem once: {','.join(hunt.PROBLEMS)}")
    return text


def main(arguments: Sequence[str]) -> int:
    """Run all rungs, print and write the record; the exit code."""
    parser = hunt.command_line()
    parser.add_argument(
        "--order",
        type=_order,
        default=",".join(hunt.PROBLEMS),
        metavar="NAME,…",
        help="all, the first to mend first",
    )
    given = parser.parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.set_float32_matmul_precision("highest")
    rows, apart = measure(torch, given, device)
    same = max(apart) <= hunt.TOLERANCE
    text = f"{len(rows)} runs, losses differ by at most {max(apart):.1e} of the first, "
    text += f"allowed {hunt.TOLERANCE:.0e}"
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"rungs": rows},
        {"losses_match": Check(same, text)},
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
