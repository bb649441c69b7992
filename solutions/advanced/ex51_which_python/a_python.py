"""Choose the command advanced-ex51: which line of Python?

Two commands of `nsys profile` for `python train.py`, both with kernels. The first says in which
functions of Python the time goes, wherever that is; the second which line of Python made each
launch. Neither samples native code.
"""

from labcode.grading.commands import begins_by_itself, other_program, waits
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (
    Command("where_time_goes", "samples of Python", tool="nsys"),
    Command("who_launched", "Python's stack at calls of CUDA", tool="nsys"),
)


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "where_time_goes": Commands(
                "nsys profile -t cuda,nvtx -s none --python-sampling=true "
                "--python-sampling-frequency=500 -o samples python train.py",
                (
                    Check(
                        other_program("python train.py"),
                        lambda r: r.program == ("python", "train.py"),
                        "nsys profile -t cuda -s none --python-sampling=true train.py",
                    ),
                    Check(
                        "Python is not sampled",
                        lambda r: r.python_samples,
                        "nsys profile -t cuda -s none python train.py",
                    ),
                    Check(
                        "stacks at calls of CUDA are recorded, too: they cost, and say nothing of "
                        "code that calls nothing",
                        lambda r: not r.python_backtraces,
                        "nsys profile -t cuda -s none --python-sampling=true --python-backtrace=cuda "
                        "python train.py",
                    ),
                    Check(
                        "native code is sampled, too (it is by default; -s none leaves it out)",
                        lambda r: not r.cpu_samples,
                        "nsys profile -t cuda --python-sampling=true python train.py",
                    ),
                    Check(
                        "there would be no kernel beside the samples",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx -s none --python-sampling=true python train.py",
                    ),
                    Check(
                        waits,
                        begins_by_itself,
                        "nsys profile -t cuda -s none --python-sampling=true "
                        "-c cudaProfilerApi python train.py",
                    ),
                ),
            ),
            "who_launched": Commands(
                "nsys profile -t cuda,nvtx -s none --python-backtrace=cuda -o launches python train.py",
                (
                    Check(
                        other_program("python train.py"),
                        lambda r: r.program == ("python", "train.py"),
                        "nsys profile -t cuda -s none --python-backtrace=cuda train.py",
                    ),
                    Check(
                        "there would be no launch whose stack could be asked for",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx -s none --python-backtrace=cuda python train.py",
                    ),
                    Check(
                        "calls of CUDA come without Python's stack",
                        lambda r: r.python_backtraces,
                        "nsys profile -t cuda -s none python train.py",
                    ),
                    Check(
                        "Python is sampled, too: a sample is not a launch",
                        lambda r: not r.python_samples,
                        "nsys profile -t cuda -s none --python-backtrace=cuda --python-sampling=true "
                        "python train.py",
                    ),
                    Check(
                        "native code is sampled, too (it is by default; -s none leaves it out)",
                        lambda r: not r.cpu_samples,
                        "nsys profile -t cuda --python-backtrace=cuda python train.py",
                    ),
                    Check(
                        waits,
                        begins_by_itself,
                        "nsys profile -t cuda -s none --python-backtrace=cuda "
                        "-c nvtx -p step python train.py",
                    ),
                ),
            ),
        },
    )
