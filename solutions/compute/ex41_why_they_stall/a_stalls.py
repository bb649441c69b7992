"""Detective compute-ex41: why do the warps stall?

captures/h200/ncu_sum/exam_steps.ncu-rep.xz holds five kernels that do the same: atomics, tree,
shuffle, vectorized, bulk. `labcode stats -r stalls FILE` gives the cycles for each instruction
that warps spend in each state.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

STATES = ("drain", "long scoreboard", "short scoreboard", "barrier", "MIO throttle")
QUESTIONS = (
    Word("atomics", "the state in which its warps spend most", words=STATES),
    Word("tree", "the state in which its warps spend most", words=STATES),
    Word("vectorized", "the state in which its warps spend most", words=STATES),
    Number("cycles", "bulk: cycles for each instruction in its longest state", within=0.02),
    Word(
        "behind",
        "what lies behind the drain of atomics",
        words=(
            "writes that wait for one place",
            "too few warps",
            "bank conflicts",
            "a full instruction queue",
        ),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.kernel.stalls import stalls
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_sum", "exam_steps")
    states, kernels = stalls(report), report.launches()["kernel"].tolist()
    found = {}
    for number, mine in states.groupby("launch"):
        found[kernels[int(str(number))]] = mine.sort_values("cycles", ascending=False)
    top = {kernel: str(mine["state"].iloc[0]) for kernel, mine in found.items()}
    says = []
    for kernel in ("atomics", "tree", "vectorized"):
        cycles = dict(zip(found[kernel]["state"], found[kernel]["cycles"], strict=True))
        for state in STATES:
            later = cycles.get(state, 0.0) >= 0.01
            words = "comes later in the list" if later else "takes hardly a cycle"
            if state != top[kernel]:
                says.append(Misreading(f"of {kernel} that one {words}: sort by cycles", {kernel: state}))
    return Answers(
        {
            "atomics": top["atomics"],
            "tree": top["tree"],
            "vectorized": top["vectorized"],
            "cycles": float(found["bulk"]["cycles"].iloc[0]),
            "behind": "writes that wait for one place",
        },
        [
            *says,
            Misreading(
                "that is the sum of all its states: the time from one instruction of a warp to the next",
                {"cycles": float(found["bulk"]["cycles"].sum())},
            ),
            Misreading(
                "there are enough: the multiprocessors are over 80 % full", {"behind": "too few warps"}
            ),
            Misreading(
                "it allocates no shared memory, and its bank conflicts are 0", {"behind": "bank conflicts"}
            ),
            Misreading(
                "full queues show as MIO or LG throttle: few cycles beside those of drain",
                {"behind": "a full instruction queue"},
            ),
        ],
        ["drain: the warp has run its last instruction and waits for its writes; all go to one address"],
    )
