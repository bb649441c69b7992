"""Choose the command nsys-ex52: inside a graph.

Two commands for `./decode`: the first shows every kernel of its graphs, the second costs the
least that still shows how long a graph ran. Neither samples the CPU.
"""

from labcode.grading.commands import begins_by_itself, other_program, waits
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (
    Command("each_kernel", "shows every kernel of a graph", tool="nsys"),
    Command("whole_graphs", "shows graphs as a whole", tool="nsys"),
)


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "each_kernel": Commands(
                "nsys profile -t cuda -s none --cuda-graph-trace=node -o nodes ./decode",
                (
                    Check(
                        other_program("./decode"),
                        lambda r: r.program == ("./decode",),
                        "nsys profile -t cuda -s none --cuda-graph-trace=node python decode.py",
                    ),
                    Check(
                        "no kernel is recorded: cuda is not traced",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx -s none --cuda-graph-trace=node ./decode",
                    ),
                    Check(
                        "a graph would be one operation: its kernels do not show",
                        lambda r: r.graph_nodes,
                        "nsys profile -t cuda -s none ./decode",
                    ),
                    Check(
                        "the CPU is sampled (it is by default; -s none leaves it out)",
                        lambda r: not r.cpu_samples,
                        "nsys profile -t cuda --cuda-graph-trace=node ./decode",
                    ),
                    Check(
                        waits,
                        begins_by_itself,
                        "nsys profile -t cuda -s none --cuda-graph-trace=node -c cudaProfilerApi ./decode",
                    ),
                ),
            ),
            "whole_graphs": Commands(
                "nsys profile -t cuda -s none --cuda-graph-trace=graph -o graphs ./decode",
                (
                    Check(
                        other_program("./decode"),
                        lambda r: r.program == ("./decode",),
                        "nsys profile -t cuda -s none python decode.py",
                    ),
                    Check(
                        "no graph is recorded: cuda is not traced",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx -s none ./decode",
                    ),
                    Check(
                        "every kernel of a graph is timed, which costs more than whole graphs",
                        lambda r: not r.graph_nodes,
                        "nsys profile -t cuda -s none --cuda-graph-trace=node ./decode",
                    ),
                    Check(
                        "the CPU is sampled (it is by default; -s none leaves it out)",
                        lambda r: not r.cpu_samples,
                        "nsys profile -t cuda ./decode",
                    ),
                    Check(
                        "calls of the operating system are traced, too: by default, or where osrt is named",
                        lambda r: "osrt" not in r.traces,
                        "nsys profile -s none ./decode",
                    ),
                    Check(
                        waits,
                        begins_by_itself,
                        "nsys profile -t cuda -s none -c cudaProfilerApi ./decode",
                    ),
                ),
            ),
        },
    )
