"""Choose the command nsys-ex51: only the steps that count.

Write a command of `nsys profile` for `python train.py` that

- records kernels, copies, calls of CUDA, and ranges of NVTX, and nothing of the operating system;
- takes no samples of the CPU, and does not record when threads run;
- begins with cudaProfilerStart and ends with cudaProfilerStop;
- writes steps.nsys-rep, also where there is one already.

What counts is what would be recorded, not how you write it.
"""

from labcode.grading.commands import other_program
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="nsys"),)


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi -o steps -f "
                "true python train.py",
                (
                    Check(
                        other_program("python train.py"),
                        lambda r: r.program == ("python", "train.py"),
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi train.py",
                    ),
                    Check(
                        "nothing records kernels and calls: add cuda to what is traced",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx -s none --cpuctxsw=none -c cudaProfilerApi -o steps -f "
                        "true python train.py",
                    ),
                    Check(
                        "nothing records the ranges: add nvtx to what is traced",
                        lambda r: "nvtx" in r.traces,
                        "nsys profile -t cuda -s none --cpuctxsw=none -c cudaProfilerApi -o steps -f "
                        "true python train.py",
                    ),
                    Check(
                        "calls of the operating system are traced, too: by default, or where osrt is named",
                        lambda r: "osrt" not in r.traces,
                        "nsys profile -s none --cpuctxsw=none -c cudaProfilerApi -o steps -f true "
                        "python train.py",
                    ),
                    Check(
                        "the CPU is sampled (it is by default; -s none leaves it out)",
                        lambda r: not r.cpu_samples,
                        "nsys profile -t cuda,nvtx --cpuctxsw=none -c cudaProfilerApi -o steps -f "
                        "true python train.py",
                    ),
                    Check(
                        "when threads run is recorded (it is by default; --cpuctxsw=none leaves it out)",
                        lambda r: not r.switches,
                        "nsys profile -t cuda,nvtx -s none -c cudaProfilerApi -o steps -f true "
                        "python train.py",
                    ),
                    Check(
                        lambda r: f"when recording begins: {r.begins}; asked for is with cudaProfilerStart",
                        lambda r: r.begins == "cudaProfilerApi",
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -o steps -f true python train.py",
                    ),
                    Check(
                        "it goes on after cudaProfilerStop",
                        lambda r: r.ends_by_itself,
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi "
                        "--capture-range-end=none -o steps -f true python train.py",
                    ),
                    Check(
                        "with repeat each range becomes a report of its own, under another name",
                        lambda r: not r.repeats,
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi "
                        "--capture-range-end=repeat:2 -o steps -f true python train.py",
                    ),
                    Check(
                        lambda r: f"the file would be called {r.line['output'] or 'report1'}, not steps",
                        lambda r: r.line["output"].removeprefix("./").removesuffix(".nsys-rep") == "steps",
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi -f "
                        "true python train.py",
                    ),
                    Check(
                        "where there is a file of this name already, it would not be written over",
                        lambda r: r.line["force-overwrite"] == "true",
                        "nsys profile -t cuda,nvtx -s none --cpuctxsw=none -c cudaProfilerApi -o "
                        "steps python train.py",
                    ),
                ),
            ),
        },
        notes=["a delay (-y) would hit the steps by luck, the API hits them each time"],
    )
