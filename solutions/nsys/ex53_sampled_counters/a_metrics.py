"""Choose the command nsys-ex53: counters over time.

A command of `nsys profile` for `python train.py` that samples the counters of GPU 0 at least
every 50 µs, and records kernels and NVTX ranges to lay them beside.
"""

from labcode.grading.commands import begins_by_itself, other_program, waits
from labcode.grading.sheet import Answers, Check, Command, Commands

QUESTIONS = (Command("command", "the whole command", tool="nsys"),)


def answers() -> Answers:
    """A command that is right, and what any has to record."""
    return Answers(
        {
            "command": Commands(
                "nsys profile -t cuda,nvtx -s none --gpu-metrics-devices=0 "
                "--gpu-metrics-frequency=20000 -o counters python train.py",
                (
                    Check(
                        other_program("python train.py"),
                        lambda r: r.program == ("python", "train.py"),
                        "nsys profile -t cuda,nvtx --gpu-metrics-devices=0 "
                        "--gpu-metrics-frequency=20000 train.py",
                    ),
                    Check(
                        "no counter is sampled: no device is named",
                        lambda r: r.gpu_metrics,
                        "nsys profile -t cuda,nvtx --gpu-metrics-frequency=20000 python train.py",
                    ),
                    Check(
                        lambda r: f"GPU 0 was asked for; this samples {r.line['gpu-metrics-devices']}",
                        lambda r: r.line["gpu-metrics-devices"] == "0",
                        "nsys profile -t cuda,nvtx --gpu-metrics-devices=all "
                        "--gpu-metrics-frequency=20000 python train.py",
                    ),
                    Check(
                        lambda r: (
                            f"{int(r.line['gpu-metrics-frequency']):,} a second: every 50 µs are 20,000"
                        ),
                        lambda r: int(r.line["gpu-metrics-frequency"]) >= 20000,
                        "nsys profile -t cuda,nvtx --gpu-metrics-devices=0 python train.py",
                    ),
                    Check(
                        "there would be no kernel beside them",
                        lambda r: "cuda" in r.traces,
                        "nsys profile -t nvtx --gpu-metrics-devices=0 --gpu-metrics-frequency=20000 "
                        "python train.py",
                    ),
                    Check(
                        "there would be no range beside them",
                        lambda r: "nvtx" in r.traces,
                        "nsys profile -t cuda --gpu-metrics-devices=0 --gpu-metrics-frequency=20000 "
                        "python train.py",
                    ),
                    Check(
                        waits,
                        begins_by_itself,
                        "nsys profile -t cuda,nvtx --gpu-metrics-devices=0 --gpu-metrics-frequency=20000 "
                        "-c cudaProfilerApi python train.py",
                    ),
                ),
            ),
        },
    )
