"""One step of a real capture in; traces of as many ranks as wanted, made up after it, out::

    python -m labcode.analysis.ranks.synthetic CAPTURE -o FOLDER --ranks 1024 --slow 613 --cause compute

Of the capture's first GPU one step is taken: its computing, drawn together into some tens of kernels, and its
collectives; a small one is added, as for the loss. Each synthetic rank repeats it on a clock of its own.
Durations scatter from rank to rank and step to step; a collective ends when the last rank has come and the
transfer is done. One rank is slow: its kernels take longer (``compute``), its host comes late to each step
(``start``), or its link is slow (``link``): then it leaves each collective late, and the others, as in a tree
whose leaf it is, by half as much. What comes of such ranks shows how an analysis works; it is no measurement
of that many GPUs.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labcode import reports
from labcode.analysis.timeline.joins import in_window
from labcode.analysis.timeline.overlap import is_communication
from labcode.errors import LabError
from labcode.outputs import staged
from labcode.reports.columns import Floats
from labcode.reports.report import TimelineReport

CAUSES = ("compute", "link", "start")
_STEP = r"(?i)^(?:profiler)?step[ #]?\d"
_BASE_NS = 1_790_000_000_000_000_000  # the Unix time of the traces
_SCATTER = 0.01  # of durations
SMALL_NS = 12_000  # of the small collective


@dataclass(frozen=True, eq=False)
class Step:
    """What one GPU did in one step, by start: name, start_ns (from the step's begin), duration_ns, talks
    (whether it is a collective), bytes (of a collective; 0 where not recorded); ``length_ns`` of the step.
    """

    ops: pd.DataFrame
    length_ns: int


@dataclass(frozen=True)
class Planted:
    """What is made up: ``slow`` is the slow rank (-1: none), ``factor`` how much slower its kernels or link
    are, or, by ``cause`` 'start', the part of the step by which its host comes late, plus 1.
    """

    ranks: int
    slow: int = -1
    cause: str = "compute"
    factor: float = 1.2
    steps: int = 3
    kernels: int = 60
    clocks_ms: float = 40.0
    seed: int = 0


def step_of(report: TimelineReport, kernels: int) -> Step:
    """A step of a capture's first GPU, its computing in about as many kernels; `LabError` without one."""
    ranges = report.nvtx()
    steps = ranges[ranges["name"].str.contains(_STEP) & ranges["end_ns"].notna()].sort_values("start_ns")
    window = report.window()
    ops = report.kernels()
    ops = ops[ops["device"] == ops["device"].min()].sort_values("start_ns", kind="stable")
    if len(steps):
        pid = ops["pid"].iloc[0] if len(ops) else 0
        own = steps[steps["pid"] == pid]
        chosen = (own if len(own) else steps).iloc[len(own) // 2]
        window = int(chosen["start_ns"]), int(chosen["end_ns"])
    ops = in_window(ops, window)
    talking = is_communication(ops) if len(ops) else pd.Series(dtype=bool)
    if not talking.any() or talking.all():
        raise LabError(
            f"{report.path}: no step with kernels and collectives (NCCL) to make ranks of; name another"
        )
    lasted = ops["end_ns"] - ops["start_ns"]
    talk = ops[talking].assign(duration_ns=lasted[talking], talks=True)
    work = ops[~talking].assign(duration_ns=lasted[~talking])
    each = -(-len(work) // kernels)
    bundle = work.groupby(np.arange(len(work)) // each)
    longest = work.loc[bundle["duration_ns"].idxmax(), "short_name"].to_numpy(object)
    drawn = bundle.agg(
        start_ns=("start_ns", "min"), duration_ns=("duration_ns", "sum"), end_ns=("end_ns", "max")
    )
    drawn["duration_ns"] = np.minimum(drawn["duration_ns"], drawn["end_ns"] - drawn["start_ns"])
    drawn = drawn.assign(short_name=longest, talks=False)
    sizes = talk["message_in"].fillna(0) if "message_in" in talk else 0
    whole = pd.concat([drawn, talk.assign(bytes=sizes)], ignore_index=True)
    whole = whole.sort_values("start_ns", kind="stable", ignore_index=True)
    begin = int(whole["start_ns"].min())
    table = pd.DataFrame(
        {
            "name": whole["short_name"].astype("str"),
            "start_ns": whole["start_ns"] - begin,
            "duration_ns": whole["duration_ns"].astype("int64"),
            "talks": whole["talks"].astype(bool),
            "bytes": whole["bytes"].fillna(0).astype("int64"),
        }
    )
    length = int(whole["end_ns"].max()) - begin
    table.loc[len(table)] = [talk["short_name"].iloc[0], length, SMALL_NS, True, 4]
    return Step(table, length + SMALL_NS)


def played(step: Step, planted: Planted) -> tuple[Floats, Floats]:
    """When each operation of all steps starts and ends on each rank: two matrices, a row per operation."""
    rng = np.random.default_rng(planted.seed)
    names = step.ops[["start_ns", "duration_ns", "talks"]].to_numpy(object)
    count, ranks = len(names), planted.ranks
    starts, ends = (np.zeros((planted.steps * count, ranks)) for _ in range(2))
    slow = np.zeros(ranks)
    if 0 <= planted.slow < ranks:
        slow[planted.slow] = planted.factor - 1
    faster = 1 + _SCATTER * rng.standard_normal(ranks)  # no two GPUs are alike
    gap = max(step.length_ns * 0.02, 1.0)
    begin = np.abs(rng.normal(0, gap, ranks))
    for number in range(planted.steps):
        if planted.cause == "start":
            begin = begin + slow * step.length_ns
        worked = talked = begin  # the end of the last kernel, of the last collective, on each rank
        last_work = last_talk = 0
        for place, (start_ns, duration_ns, talks) in enumerate(names):
            row = number * count + place
            scatter = 1 + _SCATTER * rng.standard_normal(ranks)
            after = max(int(start_ns) - max(last_work, last_talk), 0)
            if talks:
                ready = np.maximum(worked, talked) if last_work <= start_ns else talked
                starts[row] = ready + after * scatter
                transfer = duration_ns * (1 + _SCATTER * rng.standard_normal())
                link = slow if planted.cause == "link" else np.zeros(ranks)
                done = starts[row].max() + transfer * (1 + link.max() / 2)
                ends[row] = done + transfer * link / 2 + np.abs(rng.normal(0, 2e3, ranks))
                talked, last_talk = ends[row], int(start_ns) + int(duration_ns)
            else:
                ready = np.maximum(worked, talked) if last_talk <= start_ns else worked
                starts[row] = ready + after * scatter
                factor = faster * (1 + (slow if planted.cause == "compute" else 0))
                ends[row] = starts[row] + duration_ns * factor * scatter
                worked, last_work = ends[row], int(start_ns) + int(duration_ns)
        begin = np.maximum(worked, talked) + np.abs(rng.normal(gap, gap / 4, ranks))
    return starts, ends


def write(report: TimelineReport, folder: Path, planted: Planted) -> list[Path]:
    """Write a trace for each rank into a folder, ``rank0000.trace.json.gz`` and so on.

    Raises `LabError` for a slow rank that is none, and where the capture has nothing to make ranks of.
    """
    if planted.ranks < 2 or not -1 <= planted.slow < planted.ranks:
        raise LabError(
            f"--slow {planted.slow}: choose one of the ranks 0 to {planted.ranks - 1}, of two or more ranks"
        )
    if planted.cause not in CAUSES:
        raise LabError(f"--cause {planted.cause}: choose one of {', '.join(CAUSES)}")
    step = step_of(report, planted.kernels)
    starts, ends = played(step, planted)
    rng = np.random.default_rng(planted.seed + 1)
    offset = rng.uniform(0, planted.clocks_ms * 1e6, planted.ranks)
    rate = 1 + rng.normal(0, 5e-6, planted.ranks)
    files = []
    digits = len(str(planted.ranks - 1))
    with staged(folder, force=False, reads=reports.files_of(report.path)) as work:
        for rank in range(planted.ranks):
            path = work / f"rank{rank:0{digits}d}.trace.json.gz"
            document = _trace(step, starts[:, rank] * rate[rank], ends[:, rank] * rate[rank], rank, planted)
            document["baseTimeNanoseconds"] = _BASE_NS + int(offset[rank])
            path.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 1, mtime=0))
            files.append(folder / path.name)
    return files


def _trace(step: Step, starts: Floats, ends: Floats, rank: int, planted: Planted) -> dict[str, object]:
    """A rank's trace in the layout of `torch.profiler`: kernels; of collectives also launch and range."""
    names, talks = step.ops["name"].tolist(), step.ops["talks"].tolist()
    size = len(names)
    events: list[dict[str, object]] = []
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        place = number % size
        args: dict[str, object] = {"device": 0, "stream": 7, "correlation": number + 1, "context": 1}
        if talks[place]:
            args |= {"stream": 20, "Collective name": "allreduce", "Process Group Name": "0"}
            args |= {"Group size": planted.ranks}
            called = {"ph": "X", "pid": 1, "tid": 1, "ts": start / 1e3 - 12, "dur": 6.0}
            events.append(
                {
                    **called,
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernelExC",
                    "args": {"correlation": number + 1},
                }
            )
            events.append(
                {
                    **called,
                    "cat": "user_annotation",
                    "name": "nccl:all_reduce",
                    "ts": start / 1e3 - 14,
                    "dur": 10.0,
                    "args": {},
                }
            )
        timed = {"ts": start / 1e3, "dur": (end - start) / 1e3}
        events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": names[place],
                "pid": 0,
                "tid": args["stream"],
                **timed,
                "args": args,
            }
        )
    for number in range(planted.steps):
        mine = slice(number * size, (number + 1) * size)
        low, high = float(starts[mine].min()) - 20e3, float(ends[mine].max())
        timed = {"ts": low / 1e3, "dur": (high - low) / 1e3}
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"step {number}",
                "pid": 1,
                "tid": 1,
                **timed,
                "args": {},
            }
        )
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "synthetic", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
        ],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": planted.ranks},
        "traceEvents": events,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write synthetic ranks as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m labcode.analysis.ranks.synthetic", description=__doc__)
    usual = Planted(2)
    parser.add_argument("capture", type=Path, help="an nsys export or a trace of a run with collectives")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--slow", type=int, default=usual.slow, help="the slow rank; none without it")
    parser.add_argument("--cause", choices=CAUSES, default=usual.cause)
    parser.add_argument("--factor", type=float, default=usual.factor)
    parser.add_argument("--steps", type=int, default=usual.steps)
    parser.add_argument("--kernels", type=int, default=usual.kernels, help="of a step, about")
    parser.add_argument("--seed", type=int, default=usual.seed)
    given = vars(parser.parse_args(arguments))
    capture, output = given.pop("capture"), given.pop("output")
    try:
        with reports.open_timeline(capture, "timeline") as report:
            files = write(report, output, Planted(**given))
    except LabError as error:
        parser.exit(2, f"labcode: {error}\n")
    print(f"{output}: {len(files)} ranks, made up after {capture.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
