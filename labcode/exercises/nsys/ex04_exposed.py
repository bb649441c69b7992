"""Hidden cases of nsys-ex04, part a (exposed communication): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, duration
from labcode.exercises.nsys import expected
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
        "an older NCCL, another case": [run(0, b), run(a, c, OLD), run(c + 2, c + 9, "NCCL_Broadcast")],
        "two devices, and one of them is late": [
            *(run(0, a, device=d, pid=500 + d) for d in (0, 1)),
            run(a, b + 6, device=1, pid=501),
            run(a, c + 9, NEW, device=0, pid=500),
            run(b + 6, c + 9, NEW, device=1, pid=501),
        ],
        "a device that does not communicate": [
            run(0, b, device=2),
            run(a, c, NEW, device=2),
            run(0, 70, device=5),
            run(a + 1, c, NEW, device=3),
        ],
    }
    return [
        *((name, _table(rng, rows)) for name, rows in scenes.items()),
        _training(rng, 4, False),
        _training(rng, 3, True),
    ]


def _table(rng: Rng, rows: list[Row]) -> pd.DataFrame:
    frame = table(rows, "kernels")
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def _training(rng: Rng, devices: int, cut: bool) -> tuple[str, pd.DataFrame]:
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
    if cut:  # the capture ends before the last collective of device 0
        last = frame[(frame["device"] == 0) & expected.is_collective(frame)]["start_ns"].idxmax()
        frame = frame.drop(index=last).reset_index(drop=True)
    return f"{steps} steps of training on {devices} GPUs{', cut short on one of them' if cut else ''}", frame


def _summary(kernels: pd.DataFrame) -> str:
    collectives = int(expected.is_collective(kernels).sum())
    return (
        f"{len(kernels)} kernels, {collectives} of them collectives, on {kernels['device'].nunique()} "
        f"device(s)"
    )


def _communication_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.communication(kernels)
    collective = expected.is_collective(kernels)
    lasts = kernels["end_ns"] - kernels["start_ns"]
    summed = {d: int(lasts[collective & (kernels["device"] == d)].sum()) for d in right}
    lower = kernels.assign(
        name=kernels["name"].where(~collective | kernels["name"].str.contains("ncclDev"), "other")
    )
    case_sensitive = kernels.assign(name=kernels["name"].where(kernels["name"].str.contains("nccl"), "other"))
    anywhere = {
        d: expected.communication(
            pd.concat([kernels[(kernels["device"] == d) & collective], kernels[~collective].assign(device=d)])
        )[d]
        for d in right
    }
    only = {0: right[0]} if 0 in right else {}
    return Case(
        name=name,
        summary=_summary(kernels),
        function="communication",
        arguments=(kernels,),
        expected=right,
        mistakes=(
            Mistake(
                "the second number is the hidden part; asked for is the exposed part",
                {d: (t, t - e) for d, (t, e) in right.items()},
            ),
            Mistake(
                "collectives that run at the same time are counted twice: take their union",
                {d: (summed[d], summed[d] - (t - e)) for d, (t, e) in right.items()},
            ),
            Mistake(
                "collectives that run at the same time are counted twice: take their union",
                {d: (summed[d], e) for d, (_, e) in right.items()},
            ),
            Mistake(
                "everything is called exposed: take out the time in which another kernel of the device runs",
                {d: (t, t) for d, (t, _) in right.items()},
            ),
            Mistake(
                "overlaps are added up kernel by kernel: merge the other kernels first", _pairwise(kernels)
            ),
            Mistake("kernels of another GPU hide nothing: compare within each device", anywhere),
            Mistake(
                "only 'ncclDevKernel' is looked for: older versions call theirs 'ncclKernel'",
                expected.communication(lower),
            ),
            Mistake("'nccl' may be written in upper case too", expected.communication(case_sensitive)),
            Mistake("only device 0 is counted: answer for every device", only),
            Mistake(
                "a device without collectives is left out: it has (0, 0)",
                {d: v for d, v in right.items() if v[0]},
            ),
        ),
        table=kernels[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _pairwise(kernels: pd.DataFrame) -> dict[int, tuple[int, int]]:
    answer = {}
    for device, (total, _) in expected.communication(kernels).items():
        mine = kernels[kernels["device"] == device]
        collective = expected.is_collective(mine)
        starts, ends = expected.spans(mine[collective])
        hidden = 0
        for start, end in zip(*expected.spans(mine[~collective]), strict=True):
            hidden += int(np.maximum(0, np.minimum(ends, end) - np.maximum(starts, start)).sum())
        answer[device] = (total, total - hidden)
    return answer


def _lateness_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.lateness_ns(kernels)
    starts = {
        d: np.sort(
            kernels.loc[(kernels["device"] == d) & expected.is_collective(kernels), "start_ns"].to_numpy()
        )
        for d in right
    }
    count = min((len(times) for times in starts.values()), default=0)
    from_last = {d: _added(starts, d, count, "max") for d in right}
    ends = {
        d: np.sort(
            kernels.loc[(kernels["device"] == d) & expected.is_collective(kernels), "end_ns"].to_numpy()
        )
        for d in right
    }
    every = dict.fromkeys(kernels["device"].unique().tolist(), 0) | right
    return Case(
        name=name,
        summary=_summary(kernels),
        function="lateness_ns",
        arguments=(kernels,),
        expected=right,
        mistakes=(
            Mistake(
                "measured back from the last device to join; asked for is the time after the first one",
                from_last,
            ),
            Mistake(
                "collectives end together; what differs is when a device starts its own",
                {d: _added(ends, d, count, "min") for d in right},
            ),
            Mistake(
                "this is the mean; add the lateness up over all collectives",
                {d: ns / max(1, count) for d, ns in right.items()},
            ),
            Mistake(
                "only the last collective is compared: add up over all of them",
                {d: int(starts[d][count - 1] - min(s[count - 1] for s in starts.values())) for d in right}
                if count
                else {},
            ),
            Mistake(
                "the collectives of a longer device are lined up from the end: the n-th from the "
                "start belong together",
                {
                    d: _added({k: v[len(v) - count :] for k, v in starts.items()}, d, count, "min")
                    for d in right
                },
            ),
            Mistake("only devices with collectives are asked for", every),
        ),
        show=lambda value: ", ".join(f"device {d}: {duration(ns)}" for d, ns in value.items()) or "{}",
        table=kernels[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _added(times: dict[int, Any], device: int, count: int, which: str) -> int:
    if not count:
        return 0
    stacked = np.array([values[:count] for values in times.values()])
    reference = stacked.max(axis=0) if which == "max" else stacked.min(axis=0)
    return int(abs(times[device][:count] - reference).sum())


def _straggler_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.straggler(kernels)
    late, talk = expected.lateness_ns(kernels), expected.communication(kernels)
    longest = max(talk, key=lambda device: talk[device][0])
    others = [
        Mistake(
            "this device spends the most time in collectives: it waits, it does not keep others waiting",
            longest,
        )
    ]
    others += [
        Mistake(f"device {d} is {duration(ns)} late in all, device {right} {duration(late[right])}", d)
        for d, ns in late.items()
        if d not in (right, longest)
    ]
    return Case(
        name=name,
        summary=_summary(kernels),
        function="straggler",
        arguments=(kernels,),
        expected=right,
        mistakes=tuple(others),
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _cases(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    several = [(name, kernels) for name, kernels in scenes if len(expected.lateness_ns(kernels)) > 1]
    return [
        *(_communication_case(*scene) for scene in scenes),
        *(_lateness_case(*scene) for scene in [scenes[0], *several]),
        *(_straggler_case(*scene) for scene in several),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    kernels = open_run(captures, EXPERIMENT, RUN).kernels()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [make(name, kernels, exam=True) for make in (_communication_case, _lateness_case, _straggler_case)]


def _notes(captures: CaptureSet) -> list[str]:
    """The exposed share of each device of the capture."""
    shares = {
        device: exposed / total
        for device, (total, exposed) in expected.communication(
            open_run(captures, EXPERIMENT, RUN).kernels()
        ).items()
        if total
    }
    found = ", ".join(f"GPU {device} {share:.0%}" for device, share in shares.items())
    return [f"in the capture you have not seen, this much of the communication is exposed: {found}"]


EXPOSED = Task(_cases, _exam, _notes)
