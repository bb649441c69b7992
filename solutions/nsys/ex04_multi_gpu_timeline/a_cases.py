"""Hidden cases of part a (exposed communication): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.grading.cases import Case, duration
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "multi_gpu", "exam_improved"
NEW, OLD = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float",
)
_SHOWN = ["start_ns", "end_ns", "pid", "device", "stream", "short_name"]


def _scenes(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    def run(start: int, end: int, name: str = "gemm", **more: Any) -> Row:
        stream = 20 if "nccl" in name.lower() else 7
        short = name.split("(")[0]
        return {
            "start_ns": base + start * unit,
            "end_ns": base + end * unit,
            "name": name,
            "short_name": short,
            "stream": stream,
            **more,
        }

    base, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(500, 4000))
    a, b, c = sorted(int(x) for x in rng.choice(np.arange(20, 80), 3, replace=False))
    scenes = {
        "one device, one collective, partly hidden": [run(0, b), run(a, c, NEW), run(c + 3, 95)],
        "nothing is hidden": [run(0, a), run(a, b, NEW), run(b, c), run(c, 92, NEW)],
        "two kernels compute beside the collective": [
            run(a - 3, c),
            run(a, c + 4, stream=13),
            run(b, 95, NEW),
        ],
        "two collectives at once": [run(0, b), run(a, c + 2, NEW), run(a + 3, c + 9, NEW, stream=21)],
        "long ones around short ones, after others": [
            *(run(*times) for times in ((0, 5), (10, 40), (20, 30), (85, 95), (88, 90))),
            *(run(*times, NEW) for times in ((2, 8), (15, 35), (25, 45), (50, 92), (55, 60))),
        ],
        "an older NCCL, another case": [run(0, b), run(a, c, OLD), run(c + 2, c + 9, "NCCL_Broadcast")],
        "two devices, and one of them is late": [
            *(run(0, a, device=d, pid=500 + d) for d in (0, 1)),
            run(a, b + 6, device=1, pid=501),
            run(a, c + 9, NEW, device=0, pid=500),
            run(b + 6, c + 9, NEW, device=1, pid=501),
        ],
        "two devices are equally late, the higher number first": [
            run(a, c + 4, "NCCL_Broadcast", device=1),
            run(b, c + 4, "NCCL_Broadcast", device=6),
            run(b, c + 4, "NCCL_Broadcast", device=4),
        ],
        "nobody is late": [run(a, c, NEW, device=4), run(a, c + 2, NEW, device=2), run(a, b, device=2)],
        "a device that does not communicate": [
            run(0, b, device=2),
            run(a, c, NEW, device=2),
            run(0, 70, device=5),
            run(a + 1, c, NEW, device=3),
        ],
    }
    return [
        *((name, _table(rng, rows)) for name, rows in scenes.items()),
        _training(rng, 4),
        _training(rng, 3, cut=0),
        _training(rng, 3, cut=1),
    ]


def _table(rng: Rng, rows: list[Row]) -> pd.DataFrame:
    frame = table(rows, "kernels")
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def _training(rng: Rng, devices: int, cut: int | None = None) -> tuple[str, pd.DataFrame]:
    """Steps of data-parallel training: ranks compute, join a collective when ready, and end it together."""
    slow, steps = int(rng.integers(1, devices)), int(rng.integers(4, 7))
    free = {d: int(rng.integers(10**6, 10**6 + 5000)) for d in range(devices)}
    rows: list[Row] = []
    for _ in range(steps):
        for _ in range(2):  # two buckets a step
            joined = {}
            for device in range(devices):
                lasts = int(rng.integers(380_000, 420_000)) + (90_000 if device == slow else 0)
                ran = {
                    "name": "gemm",
                    "short_name": "gemm",
                    "device": device,
                    "pid": 900 + device,
                    "stream": 7,
                }
                rows.append({**ran, "start_ns": free[device], "end_ns": free[device] + lasts})
                joined[device] = free[device] + lasts - int(rng.integers(0, 60_000))
                free[device] += lasts
            done = max(joined.values()) + int(rng.integers(150_000, 250_000))
            for device, start in joined.items():
                sent = {
                    "name": NEW,
                    "short_name": "ncclDevKernel",
                    "device": device,
                    "pid": 900 + device,
                    "stream": 20,
                }
                rows.append({**sent, "start_ns": start, "end_ns": done + int(rng.integers(0, 900))})
                free[device] = max(free[device], done - int(rng.integers(0, 100_000)))
    frame = _table(rng, rows)
    if cut is not None:  # the capture ends before the last collective of this device
        last = frame[(frame["device"] == cut) & _collective(frame)]["start_ns"].idxmax()
        frame = frame.drop(index=last).reset_index(drop=True)
    return (
        f"{steps} steps of training on {devices} GPUs{'' if cut is None else f', cut short on GPU {cut}'}",
        frame,
    )


def _collective(kernels: pd.DataFrame) -> pd.Series[bool]:
    return kernels["name"].str.contains("nccl", case=False)


def _case(function: str, name: str, kernels: pd.DataFrame) -> Case:
    collectives = int(_collective(kernels).sum())
    devices = kernels["device"].nunique()
    summary = f"{len(kernels)} kernels, {collectives} of them collectives, on {devices} device(s)"
    show = _shown_times if function == "lateness_ns" else None
    return Case(name, summary, function, (kernels,), table=kernels[_SHOWN], show=show)


def _shown_times(late: dict[int, int]) -> str:
    return ", ".join(f"device {device}: {duration(ns)}" for device, ns in late.items()) or "{}"


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    scenes = _scenes(rng)
    several = [scene for scene in scenes if scene[1][_collective(scene[1])]["device"].nunique() > 1]
    return [
        *(_case("communication", *scene) for scene in scenes),
        *(_case("lateness_ns", *scene) for scene in [scenes[0], *several]),
        *(_case("straggler", *scene) for scene in several),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture."""
    kernels = open_run(captures, EXPERIMENT, RUN).kernels()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [_case(function, name, kernels) for function in ("communication", "lateness_ns", "straggler")]


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """The exposed share of each device of the capture."""
    times = answered[0][1]
    shares = {device: exposed / total for device, (total, exposed) in times.items() if total}
    found = ", ".join(f"GPU {device} {share:.0%}" for device, share in shares.items())
    return [f"in the capture you have not seen, this much of the communication is exposed: {found}"]


def _communication(kernels: pd.DataFrame) -> dict[int, tuple[int, int]]:
    answer = {}
    for device, mine in kernels.groupby("device"):
        collective = _collective(mine)
        talk, compute = (
            (rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
            for rows in (mine[collective], mine[~collective])
        )
        exposed = intervals.subtract(*talk, *compute)
        answer[int(device)] = intervals.total(*talk), intervals.total(*exposed)
    return answer


AGREES_WITH = {"communication": _communication}
