"""Choose the command compute-ex53: times as they are in the program.

A command of `ncu` for `./blur` that measures the kernel blur (all its launches) as it runs in the
program: at the clock that the GPU has, and with the caches as the kernels before left them. Its
duration is enough.
"""

from labcode.grading.commands import Launch, Ncu, named, other_program
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="ncu"),)

LAUNCHES = [Launch("fill"), Launch("blur"), Launch("sum"), Launch("blur")]


def _launches(r: Ncu) -> str:
    """What is profiled in place of all launches of blur."""
    found = r.profiled(LAUNCHES)
    if not found:
        return r.nothing(LAUNCHES)
    others = named(LAUNCHES, (n for n in found if LAUNCHES[n].kernel != "blur"))
    return (
        f"launches of other kernels are profiled: {others}"
        if others
        else "not all launches of blur are profiled"
    )


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "ncu --clock-control none --cache-control none -k blur --metrics "
                "gpu__time_duration.sum ./blur",
                (
                    Check(
                        other_program("./blur"),
                        lambda r: r.program == ("./blur",),
                        "ncu --clock-control none --cache-control none -k blur blur",
                    ),
                    Check(
                        "the clock would not be left as it is, which --clock-control none does",
                        lambda r: r.clocks_as_they_are,
                        "ncu --cache-control none -k blur --metrics gpu__time_duration.sum ./blur",
                    ),
                    Check(
                        "the caches are emptied before each pass",
                        lambda r: r.caches_as_they_are,
                        "ncu --clock-control none -k blur --metrics gpu__time_duration.sum ./blur",
                    ),
                    Check(
                        _launches,
                        lambda r: r.profiled(LAUNCHES) == [1, 3],
                        "ncu --clock-control none --cache-control none --metrics "
                        "gpu__time_duration.sum ./blur",
                    ),
                    Check(
                        "neither the metric gpu__time_duration nor SpeedOfLight, with it, is collected",
                        lambda r: (
                            "SpeedOfLight" in r.sections
                            or any(
                                r.counts(f"gpu__time_duration.{how}") for how in ("sum", "avg", "max", "min")
                            )
                        ),
                        "ncu --clock-control none --cache-control none -k blur --section Occupancy ./blur",
                    ),
                    Check(
                        "several sections may take several passes: with the caches left alone, a pass "
                        "may find them in another state than the one before",
                        lambda r: len(r.sections) <= 1,
                        "ncu --clock-control none --cache-control none -k blur --set full ./blur",
                    ),
                ),
            ),
        },
    )
