"""Choose the command compute-ex51: one launch of many.

The program launches these kernels, in this order: copy, softmax, gemm, softmax, gemm, softmax,
softmax. Write a command of `ncu` for `python train.py` that profiles the third softmax and no
other launch, and writes a report with the roofline and the warp states.
"""

from labcode.grading.commands import Launch, Ncu, named, other_program
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="ncu"),)

KERNELS = [Launch(name) for name in ["copy", "softmax", "gemm", "softmax", "gemm", "softmax", "softmax"]]


def _which(r: Ncu) -> str:
    """Which launches of softmax are profiled."""
    softmax = [n for n, one in enumerate(KERNELS) if one.kernel == "softmax"]
    numbers = [str(1 + place) for place, n in enumerate(softmax) if n in r.profiled(KERNELS)]
    return f"of the launches of softmax number {', '.join(numbers) or 'none'} is profiled, not the third"


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "ncu --set full -k softmax -s 2 -c 1 -o third python train.py",
                (
                    Check(
                        other_program("python train.py"),
                        lambda r: r.program == ("python", "train.py"),
                        "ncu --set full -k softmax -s 2 -c 1 -o third train.py",
                    ),
                    Check(
                        lambda r: (
                            f"launches of these kernels are profiled: {named(KERNELS, r.profiled(KERNELS))}"
                        ),
                        lambda r: named(KERNELS, r.profiled(KERNELS)) in ("", "softmax"),
                        "ncu --set full -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        lambda r: r.nothing(KERNELS),
                        lambda r: bool(r.profiled(KERNELS)),
                        "ncu --set full -k softmax -s 9 -c 1 -o third python train.py",
                    ),
                    Check(
                        lambda r: f"{len(r.profiled(KERNELS))} launches of softmax are profiled, not one",
                        lambda r: len(r.profiled(KERNELS)) == 1,
                        "ncu --set full -k softmax -s 2 -o third python train.py",
                    ),
                    Check(
                        _which,
                        lambda r: r.profiled(KERNELS) == [5],
                        "ncu --set full -k softmax -s 3 -c 1 -o third python train.py",
                    ),
                    Check(
                        "the section of warp states (WarpStateStats) is missing: name it, or a set with it",
                        lambda r: "WarpStateStats" in r.sections,
                        "ncu -k softmax -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        "the section of a roofline (SpeedOfLight_RooflineChart) is missing: name it, or "
                        "a set with it",
                        lambda r: any("Roofline" in one for one in r.sections),
                        "ncu --section WarpStateStats -k softmax -s 2 -c 1 -o third python train.py",
                    ),
                    Check(
                        "without -o ncu writes no report",
                        lambda r: "export" in r.line,
                        "ncu --set full -k softmax -s 2 -c 1 python train.py",
                    ),
                ),
            ),
        },
    )
