"""Choose the command compute-ex51: one launch of many.

The program launches these kernels, in this order: copy, softmax, gemm, softmax, gemm, softmax,
softmax. Write a command of `ncu` for `python train.py` that profiles the third softmax and no
other launch, and writes a report with the roofline and the warp states.
"""

from labcode.grading.commands import Launch
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="ncu"),)

KERNELS = [Launch(name) for name in ["copy", "softmax", "gemm", "softmax", "gemm", "softmax", "softmax"]]


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "ncu --set full -k softmax -s 2 -c 1 -o third python train.py",
                (
                    Check(
                        "the program is python train.py",
                        lambda r: r.program == ("python", "train.py"),
                        "ncu --set full -k softmax -s 2 -c 1 -o third train.py",
                    ),
                    Check(
                        "launches of other kernels are profiled, too: filter by name",
                        lambda r: all(KERNELS[n].kernel == "softmax" for n in r.profiled(KERNELS)),
                        "ncu --set full -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        "no launch at all is profiled",
                        lambda r: bool(r.profiled(KERNELS)),
                        "ncu --set full -k softmax -s 9 -c 1 -o third python train.py",
                    ),
                    Check(
                        "more than one launch is profiled: say how many",
                        lambda r: len(r.profiled(KERNELS)) == 1,
                        "ncu --set full -k softmax -s 2 -o third python train.py",
                    ),
                    Check(
                        "another launch of softmax is profiled: filter by name, and skip the two of "
                        "them that come before",
                        lambda r: r.profiled(KERNELS) == [5],
                        "ncu --set full -k softmax -s 3 -c 1 -o third python train.py",
                    ),
                    Check(
                        "the warp states are not collected: neither the default set has them nor that of "
                        "the roofline",
                        lambda r: "WarpStateStats" in r.sections,
                        "ncu -k softmax -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        "the roofline is not collected",
                        lambda r: "SpeedOfLight_RooflineChart" in r.sections,
                        "ncu --section WarpStateStats -k softmax -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        "without -o ncu prints, and keeps nothing",
                        lambda r: "export" in r.line,
                        "ncu --set full -k softmax -s 2 -c 1 python train.py",
                    ),
                ),
            ),
        },
    )
