"""Choose the command guides-ex51: which report answers that?

For a file run.sqlite (an export of Nsight Systems with samples of Python). Each command judges
the steady state: `diagnose` does by itself, `stats` does with --window steady.
"""

from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (
    Command("kernels", "Which kernel takes the most time?", tool="labcode"),
    Command("waits", "Which call of CUDA does the CPU spend its time in?", tool="labcode"),
    Command("python", "In which functions of Python is the program?", tool="labcode"),
    Command("cause", "What is wrong with it, and what would mending it gain?", tool="labcode"),
)


def _other(asked: str) -> str:
    """What is told of a report that does not answer."""
    return f"asked for are {asked}; labcode stats --list says what each report tells"


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "kernels": Commands(
                "labcode stats -r cuda_gpu_kern_sum --window steady run.sqlite",
                (
                    Check(
                        lambda r: f"the file is run.sqlite, not {' '.join(r.files) or 'none'}",
                        lambda r: r.files == ("run.sqlite",),
                        "labcode stats -r cuda_gpu_kern_sum --window steady",
                    ),
                    Check(
                        "a table answers that: labcode stats",
                        lambda r: r.command == "stats",
                        "labcode diagnose run.sqlite",
                    ),
                    Check(
                        _other("kernels summed up by name"),
                        lambda r: any(
                            name in ("cuda_gpu_kern_sum", "cuda_gpu_sum", "cuda_gpu_kern_gb_sum")
                            for name in r.reports
                        ),
                        "labcode stats -r um_sum --window steady run.sqlite",
                    ),
                    Check(
                        "the window is not the steady state",
                        lambda r: r.line["window"] == "steady",
                        "labcode stats -r cuda_gpu_kern_sum run.sqlite",
                    ),
                ),
            ),
            "waits": Commands(
                "labcode stats -r cuda_api_sum --window steady run.sqlite",
                (
                    Check(
                        lambda r: f"the file is run.sqlite, not {' '.join(r.files) or 'none'}",
                        lambda r: r.files == ("run.sqlite",),
                        "labcode stats -r cuda_api_sum --window steady",
                    ),
                    Check(
                        "a table answers that: labcode stats",
                        lambda r: r.command == "stats",
                        "labcode diagnose run.sqlite",
                    ),
                    Check(
                        _other("calls of CUDA summed up by name"),
                        lambda r: any(name in ("cuda_api_sum", "cuda_api_gpu_sum") for name in r.reports),
                        "labcode stats -r um_sum --window steady run.sqlite",
                    ),
                    Check(
                        "the window is not the steady state",
                        lambda r: r.line["window"] == "steady",
                        "labcode stats -r cuda_api_sum run.sqlite",
                    ),
                ),
            ),
            "python": Commands(
                "labcode stats -r python_functions --window steady run.sqlite",
                (
                    Check(
                        lambda r: f"the file is run.sqlite, not {' '.join(r.files) or 'none'}",
                        lambda r: r.files == ("run.sqlite",),
                        "labcode stats -r python_functions --window steady",
                    ),
                    Check(
                        "a table answers that: labcode stats",
                        lambda r: r.command == "stats",
                        "labcode diagnose run.sqlite",
                    ),
                    Check(
                        _other("samples of Python, counted"),
                        lambda r: any(name in ("python_functions", "python_stacks") for name in r.reports),
                        "labcode stats -r um_sum --window steady run.sqlite",
                    ),
                    Check(
                        "the window is not the steady state",
                        lambda r: r.line["window"] == "steady",
                        "labcode stats -r python_functions run.sqlite",
                    ),
                ),
            ),
            "cause": Commands(
                "labcode diagnose run.sqlite",
                (
                    Check(
                        lambda r: f"the file is run.sqlite, not {' '.join(r.files) or 'none'}",
                        lambda r: r.files == ("run.sqlite",),
                        "labcode diagnose",
                    ),
                    Check(
                        "tables leave the judging to you: labcode diagnose",
                        lambda r: r.command == "diagnose",
                        "labcode stats --all run.sqlite",
                    ),
                    Check(
                        "the window is not the steady state",
                        lambda r: r.line["window"] in ("", "steady"),
                        "labcode diagnose --window all run.sqlite",
                    ),
                ),
            ),
        },
    )
