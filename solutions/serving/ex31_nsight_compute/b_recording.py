"""Record serving-ex31, part b: counters of kernels on your own GPU.

Record this program with ncu: attention of the newest token over a paged cache, step by step. It warms each
step up and checks it, then marks one launch of each for the profiler.

    python -m labcode.workloads.cuda paged_decode --variant all --repetitions 1

Follow the processes that it starts (--target-processes all). What the report is for: which step loses how
much time against the memory's roof. So it holds the marked launches of `pages`, `tensor` and `split` (more
of the steps may be in it), their time as they run, and the bytes that the DRAM read. Put the report into
this folder and write its name here.
"""

from typing import Any

from labcode.grading.sheet import Answers, Check, Recording, Recordings

QUESTIONS = (Recording("recording", "your report", tool="ncu"),)
ASKED = ("pages", "tensor", "split")
STEPS = {"heads", "groups", "combine", "one_launch", "balanced", "stealing", *ASKED}


def names(report: Any) -> list[str]:
    """The kernels of the launches."""
    return [launch.function for launch in report.list]


def has(report: Any, *meanings: str) -> bool:
    """Whether every launch has numbers of these meanings."""
    return all(launch.has(one) for launch in report.list for one in meanings)


CHECKS = (
    Check(
        "pages, tensor and split are not all in it: the filter (-k, --launch-count) leaves some out",
        lambda r: set(ASKED) <= set(names(r)),
        "one kernel alone",
    ),
    Check(
        "a step is in it more than once, as with launches that warm up or check: let the program mark one of "
        "each (--profile-from-start off, --repetitions 1)",
        lambda r: len(names(r)) == len(set(names(r))),
        "from the start",
    ),
    Check(
        "kernels that are no step are in it, such as those that fill the cache: name the steps (-k regex:…)",
        lambda r: set(names(r)) <= STEPS,
        "another program",
    ),
    Check(
        "the clock was held at its base: these times are the profiler's, not the program's "
        "(--clock-control none)",
        lambda r: r.clock_control == "none",
        "ncu's own default",
    ),
    Check(
        "no duration in it: collect --section SpeedOfLight",
        lambda r: has(r, "duration_ns"),
        "without SpeedOfLight",
    ),
    Check(
        "no bytes of the DRAM in it: collect --section MemoryWorkloadAnalysis_Tables",
        lambda r: all("dram__bytes_read.sum" in launch.readings for launch in r.list),
        "without the memory's tables",
    ),
    Check(
        "the whole program was run again for each pass (--replay-mode application), warm-up and all: kernels "
        "can be replayed here",
        lambda r: "application" not in r.command and "app-range" not in r.command,
        "--replay-mode application",
    ),
)


def answers() -> Answers:
    """The book's report, and what yours has to hold."""
    from labcode.reports.ncu.report import open_report
    from labcode.store import repository_root

    model = repository_root() / "captures" / "h200" / "ncu_paged_decode" / "steps.ncu-rep.xz"
    return Answers(
        {"recording": Recordings(model, open_report, CHECKS)},
        (),
        ["hand its launches to your answer of part a, or to `labcode roofline`"],
    )
