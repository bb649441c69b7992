"""Choose the command compute-ex52: stalls, in one range.

A command of `ncu` for `./solver` that profiles the launches inside of the NVTX range step (pushed
and popped), with the warp states, samples by instruction, and the source, and without a set.
"""

from labcode.grading.commands import Launch, Ncu, named, other_program
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="ncu"),)

LAUNCHES = [Launch("init"), Launch("relax", ("step",)), Launch("norm", ("step",)), Launch("write")]


def _nothing(r: Ncu) -> str:
    """Why no launch is profiled, as far as the command says it."""
    filters = r.line.options.get("nvtx-include", ())
    if filters and "nvtx" not in r.line:
        return "nothing is profiled: ncu sees ranges with --nvtx"
    if "step" in filters:
        return (
            "nothing is profiled: a range that is pushed and popped is named with a slash behind it (step/)"
        )
    if filters and "step/" not in filters:
        return f"nothing is profiled: no launch is known to lie in {', '.join(filters)}; in step/ two do"
    why = r.nothing(LAUNCHES)
    return why if filters else f"{why}; --nvtx-include chooses a range"


def _others(r: Ncu) -> str:
    """Which launches are profiled in place of those in the range."""
    found = r.profiled(LAUNCHES)
    if outside := named(LAUNCHES, (n for n in found if not LAUNCHES[n].ranges)):
        return f"launches outside of the range are profiled: {outside}"
    missing = named(LAUNCHES, (n for n in (1, 2) if n not in found))
    return f"not all launches in the range are profiled: {missing} is missing"


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section SourceCounters "
                "--import-source yes -o step ./solver",
                (
                    Check(
                        other_program("./solver"),
                        lambda r: r.program == ("./solver",),
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters --import-source yes -o step python solver.py",
                    ),
                    Check(
                        _nothing,
                        lambda r: bool(r.profiled(LAUNCHES)),
                        "ncu --nvtx --nvtx-include step --section WarpStateStats --section "
                        "SourceCounters --import-source yes -o step ./solver",
                    ),
                    Check(
                        _others,
                        lambda r: r.profiled(LAUNCHES) == [1, 2],
                        "ncu --section WarpStateStats --section SourceCounters --import-source yes "
                        "-o step ./solver",
                    ),
                    Check(
                        "the section of the warp states (WarpStateStats) is missing",
                        lambda r: "WarpStateStats" in r.sections,
                        "ncu --nvtx --nvtx-include step/ --section SourceCounters --import-source "
                        "yes -o step ./solver",
                    ),
                    Check(
                        "the section with samples by instruction (SourceCounters) is missing",
                        lambda r: "SourceCounters" in r.sections,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --import-source "
                        "yes -o step ./solver",
                    ),
                    Check(
                        "asked for is a command without a set (--set)",
                        lambda r: "set" not in r.line,
                        "ncu --set full --nvtx --nvtx-include step/ --import-source yes -o step ./solver",
                    ),
                    Check(
                        "more sections are collected than the two that are asked for",
                        lambda r: len(r.sections) <= 3,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section SourceCounters "
                        "--section Occupancy --section LaunchStats --import-source yes -o step ./solver",
                    ),
                    Check(
                        "the source would not be in the report",
                        lambda r: r.source,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters -o step ./solver",
                    ),
                    Check(
                        "without -o ncu writes no report",
                        lambda r: "export" in r.line,
                        "ncu --nvtx --nvtx-include step/ --section WarpStateStats --section "
                        "SourceCounters --import-source yes ./solver",
                    ),
                ),
            ),
        },
    )
