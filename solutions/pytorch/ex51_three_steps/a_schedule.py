"""Choose the command pytorch-ex51: three steps of a thousand.

Write the call profile(…) as it stands after `with`, for a loop of a thousand steps that calls
prof.step() after each. It records steps 10, 11 and 12 and no others (counted from 0), operators
and kernels, with the shapes of what operators get; the profiler has a step to warm up before; and
a trace is written when it is ready, by on_trace_ready=save.
"""

from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("call", "the call", tool="torch.profiler"),)


def _at_once(steps: list[int]) -> bool:
    """Whether steps come one after the other, in one cycle."""
    return not steps or steps[-1] - steps[0] == len(steps) - 1


def _in_words(steps: list[int]) -> str:
    """Which steps are recorded."""
    few = ", ".join(map(str, steps[:4])) + (", …" if len(steps) > 4 else "")
    return f"steps {few} are recorded" if steps else "no step is recorded"


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "call": Commands(
                "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], "
                "schedule=schedule(wait=9, warmup=1, active=3, repeat=1), record_shapes=True, "
                "on_trace_ready=save)",
                (
                    Check(
                        "operators are not recorded: add ProfilerActivity.CPU",
                        lambda r: r.cpu,
                        "profile(activities=[ProfilerActivity.CUDA], schedule=schedule(wait=9, "
                        "warmup=1, active=3, repeat=1), record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        "kernels are not recorded: add ProfilerActivity.CUDA",
                        lambda r: r.cuda,
                        "profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=9, "
                        "warmup=1, active=3, repeat=1), record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        "without a schedule all thousand steps are recorded",
                        lambda r: "schedule" in r.given,
                        "profile(record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        lambda r: f"{_in_words(r.recorded(1000))}: the cycle begins anew (repeat)",
                        lambda r: _at_once(r.recorded(1000)),
                        "profile(schedule=schedule(wait=9, warmup=1, active=3), record_shapes=True, "
                        "on_trace_ready=save)",
                    ),
                    Check(
                        "the profiler has no step to warm up before",
                        lambda r: r.warmed,
                        "profile(schedule=schedule(wait=10, warmup=0, active=3, repeat=1), "
                        "record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        lambda r: f"{_in_words(r.recorded(1000))}, not 10, 11, 12",
                        lambda r: r.recorded(1000) == [10, 11, 12],
                        "profile(schedule=schedule(wait=10, warmup=1, active=3, repeat=1), "
                        "record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        "shapes are not recorded: record_shapes",
                        lambda r: r.shapes,
                        "profile(schedule=schedule(wait=9, warmup=1, active=3, repeat=1), "
                        "on_trace_ready=save)",
                    ),
                    Check(
                        "nothing is done with the trace",
                        lambda r: r.writes,
                        "profile(schedule=schedule(wait=9, warmup=1, active=3, repeat=1), "
                        "record_shapes=True)",
                    ),
                ),
            ),
        },
    )
