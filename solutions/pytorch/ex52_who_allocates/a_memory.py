"""Choose the command pytorch-ex52: who allocates?

Write the call profile(…) that records operators, every allocation, and the lines of Python that
asked for it; no shapes, no FLOP, no modules.
"""

from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("call", "the call", tool="torch.profiler"),)


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "call": Commands(
                "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], "
                "profile_memory=True, with_stack=True)",
                (
                    Check(
                        "operators are not recorded: add ProfilerActivity.CPU",
                        lambda r: r.cpu,
                        "profile(activities=[ProfilerActivity.CUDA], profile_memory=True, with_stack=True)",
                    ),
                    Check(
                        "allocations are not recorded: profile_memory",
                        lambda r: r.memory,
                        "profile(with_stack=True)",
                    ),
                    Check(
                        "nothing says which line asked: with_stack",
                        lambda r: r.stacks,
                        "profile(profile_memory=True)",
                    ),
                    Check(
                        "shapes were not asked for; they cost time, and keep tensors alive",
                        lambda r: not r.shapes,
                        "profile(profile_memory=True, with_stack=True, record_shapes=True)",
                    ),
                    Check(
                        "FLOP were not asked for",
                        lambda r: not r.flops,
                        "profile(profile_memory=True, with_stack=True, with_flops=True)",
                    ),
                    Check(
                        "modules were not asked for",
                        lambda r: not r.modules,
                        "profile(profile_memory=True, with_stack=True, with_modules=True)",
                    ),
                ),
            ),
        },
    )
