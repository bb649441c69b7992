"""Detective pytorch-ex42: who pays for the profiler?

captures/h200/profiler_overhead/all.json has the times of one training step under tools: look at
results, ways. Times are those of the host's clock.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Word(
        "cheapest",
        "the tool that costs least, but for none",
        words=("NVTX ranges", "record_function ranges", "torch.profiler", "nsys"),
    ),
    Number(
        "switches", "the step under torch.profiler with all switches, over that without a tool", within=0.01
    ),
    Number("added_ms", "what nsys adds to a step", unit="ms", within=0.01),
    Number("ncu", "how many times as long a step takes under ncu", within=0.02),
    Share("spread", "without a tool: the most of the five steps less the least, over the median", by=0.003),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    ways = {one["tool"]: one for one in opened.record("h200", "profiler_overhead", "all")["results"]["ways"]}
    none = ways["none"]
    ranked = sorted(
        ("NVTX ranges", "record_function ranges", "torch.profiler", "nsys"),
        key=lambda one: ways[one]["step_ms"],
    )
    ncu = next(one for name, one in ways.items() if name.startswith("ncu"))
    steps = none["step_host_ms"]
    nsys = ways["nsys"]["step_ms"]
    every = ways["torch.profiler, all switches"]
    return Answers(
        {
            "cheapest": ranked[0],
            "switches": every["step_ms"] / none["step_ms"],
            "added_ms": nsys - none["step_ms"],
            "ncu": ncu["step_ms"] / none["step_ms"],
            "spread": (max(steps) - min(steps)) / none["step_ms"],
        },
        [
            *(Misreading("another costs less", {"cheapest": name}) for name in ranked[1:]),
            Misreading(
                "that is torch.profiler without the switches",
                {"switches": ways["torch.profiler"]["step_ms"] / none["step_ms"]},
            ),
            Misreading(
                "that is the share that is added", {"switches": every["step_ms"] / none["step_ms"] - 1}
            ),
            Misreading("that is the whole step", {"added_ms": nsys}),
            Misreading(
                "that is of the whole programs, with their start: steps are asked for",
                {"ncu": ncu["wall_s"] / none["wall_s"]},
            ),
            Misreading("that is in ms: divide by the median", {"spread": max(steps) - min(steps)}),
            Misreading(
                "that is with NVTX ranges",
                {
                    "spread": (
                        max(ways["NVTX ranges"]["step_host_ms"]) - min(ways["NVTX ranges"]["step_host_ms"])
                    )
                    / ways["NVTX ranges"]["step_ms"]
                },
            ),
        ],
        ["the step is bound by its launches: what a tool adds to each shows whole"],
    )
