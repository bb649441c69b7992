"""Choose the command compute-ex52: stalls, in one range.

A command of `ncu` for `./solver` that profiles the launches inside of the NVTX range step (pushed
and popped), with the warp states, samples by instruction, and the source, and without a set.
"""

from labcode.grading.commands import Launch
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="ncu"),)

LAUNCHES = [Launch("init"), Launch("relax", ("step",)), Launch("norm", ("step",)), Launch("write")]


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section SourceCounters "
                "--import-source yes -o step ./solver",
                (
                    Check(
                        "the program is ./solver",
                        lambda r: r.program == ("./solver",),
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters --import-source yes -o step python solver.py",
                    ),
                    Check(
                        "nothing is profiled: ranges are seen with --nvtx, and those of push and pop "
                        "end in a slash",
                        lambda r: bool(r.profiled(LAUNCHES)),
                        "ncu --nvtx --nvtx-include step --section WarpStateStats --section "
                        "SourceCounters --import-source yes -o step ./solver",
                    ),
                    Check(
                        "launches outside of the range are profiled, too",
                        lambda r: r.profiled(LAUNCHES) == [1, 2],
                        "ncu --section WarpStateStats --section SourceCounters --import-source yes "
                        "-o step ./solver",
                    ),
                    Check(
                        "the warp states are missing",
                        lambda r: "WarpStateStats" in r.sections,
                        "ncu --nvtx --nvtx-include step/ --section SourceCounters --import-source "
                        "yes -o step ./solver",
                    ),
                    Check(
                        "there would be no samples by instruction",
                        lambda r: "SourceCounters" in r.sections,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --import-source "
                        "yes -o step ./solver",
                    ),
                    Check(
                        "a set brings sections that nobody asked for, each with its passes",
                        lambda r: len(r.sections) <= 3 and "set" not in r.line,
                        "ncu --set full --nvtx --nvtx-include step/ --import-source yes -o step ./solver",
                    ),
                    Check(
                        "the source would not be in the report",
                        lambda r: r.source,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters -o step ./solver",
                    ),
                    Check(
                        "without -o ncu prints, and keeps nothing",
                        lambda r: "export" in r.line,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters --import-source yes ./solver",
                    ),
                ),
            ),
        },
    )
