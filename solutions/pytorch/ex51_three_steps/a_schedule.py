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
                        "the cycle begins anew after step 12: say repeat=1",
                        lambda r: _at_once(r.recorded(1000)),
                        "profile(schedule=schedule(wait=9, warmup=1, active=3), record_shapes=True, "
                        "on_trace_ready=save)",
                    ),
                    Check(
                        "the profiler's own first step, which is slow, is recorded: give it one to warm up",
                        lambda r: r.warmed,
                        "profile(schedule=schedule(wait=10, warmup=0, active=3, repeat=1), "
                        "record_shapes=True, on_trace_ready=save)",
                    ),
                    Check(
                        "other steps are recorded: wait and warmup come before the first, active are as many",
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
