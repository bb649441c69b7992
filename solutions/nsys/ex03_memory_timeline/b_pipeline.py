"""Exercise nsys-ex03, part b: how fast would it be if copies and kernels overlapped? Predict it before you
write it.

A batch goes through three stages: copied to the GPU, computed, copied back. Each stage has an engine of its
own (one copy engine for each direction, and the multiprocessors), which does one thing at a time. Cut the
batch into chunks and the stages of different chunks can run at once:

    copy in    | 0 | 1 | 2 |
    compute        | 0 | 1 | 2 |
    copy out           | 0 | 1 | 2 |

A chunk starts a stage when it has finished the stage before **and** the chunk before it has left the engine.

Times are in ns. `whole` is the time of each stage for the whole batch, in order; any number of stages ≥ 1.
Cut into n chunks, a stage takes `whole / n + overhead_ns` for each chunk (starting a copy or a kernel is not
free).

A worked example:

    finish_times([[10, 20, 5], [10, 20, 5]])                  ->  [[10, 30, 35], [20, 50, 55]]
    pipelined_ns(whole=[20, 40, 10], chunks=2, overhead_ns=0)  ->  55.0
    pipelined_ns(whole=[20, 40, 10], chunks=2, overhead_ns=3)  ->  67.0
    best_chunks(whole=[20, 40, 10], overhead_ns=3, most=8)     ->  3

Grade it:         labcode exercises nsys-ex03b        (or: nox -s exercises -- nsys-ex03b)
Get a hint:       labcode exercises nsys-ex03b --hint
Try it yourself:  python exercises/nsys/ex03_memory_timeline/b_pipeline.py     (runs on captures of the book)
"""

import pandas as pd


def finish_times(stage_ns: list[list[float]]) -> list[list[float]]:
    """When each chunk leaves each stage, counted from the start of the first copy.

    `stage_ns[c][s]` is how long chunk c takes in stage s; chunks go through each stage in order. The answer
    has the same shape.
    """
    # [solution]
    done: list[list[float]] = []
    for c, times in enumerate(stage_ns):
        row: list[float] = []
        for s, ns in enumerate(times):
            arrived = row[s - 1] if s else 0
            free = done[c - 1][s] if c else 0
            row.append(max(arrived, free) + ns)
        done.append(row)
    return done
    # [starter]
    # raise NotImplementedError("start: when this chunk is there and the chunk before is gone")
    # [end]


def pipelined_ns(whole: list[float], chunks: int, overhead_ns: float) -> float:
    """The time of the whole batch cut into equal chunks; `chunks` is 1 or more (1: no overlap at all)."""
    # [solution]
    per_chunk = [ns / chunks + overhead_ns for ns in whole]
    return finish_times([per_chunk] * chunks)[-1][-1]
    # [starter]
    # raise NotImplementedError("finish_times of equal chunks, the last entry")
    # [end]


def best_chunks(whole: list[float], overhead_ns: float, most: int) -> int:
    """The number of chunks from 1 to `most` with the shortest time; the smallest such number."""
    # [solution]
    return min(range(1, most + 1), key=lambda chunks: pipelined_ns(whole, chunks, overhead_ns))
    # [starter]
    # raise NotImplementedError("try them all")
    # [end]


def predict_ns(ops: pd.DataFrame, repetitions: int, chunks: int) -> float:
    """From a capture without overlap: what one repetition would take with this many chunks and no overhead.

    `ops` are the GPU operations of `repetitions` equal repetitions on one device, one after another. Rows
    have kind ('memcpy' or 'kernel', others are left out), name ('memcpy H2D', 'memcpy D2H', …), start_ns and
    end_ns. The three stages are the H2D copies, the kernels and the D2H copies; `whole` is the time that one
    repetition spends in each.
    """
    # [solution]
    lasts = ops["end_ns"] - ops["start_ns"]
    copies, kernels = ops["kind"] == "memcpy", ops["kind"] == "kernel"
    stages = [copies & (ops["name"] == "memcpy H2D"), kernels, copies & (ops["name"] == "memcpy D2H")]
    return pipelined_ns([float(lasts[stage].sum()) / repetitions for stage in stages], chunks, 0.0)
    # [starter]
    # raise NotImplementedError("add up each stage, divide by the repetitions, then pipelined_ns")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    operations = open_report(captures.path_of("memory_timeline", "pinned")).gpu_ops()
    rounds = captures.record("memory_timeline", "pinned")["parameters"]["repetitions"]
    pieces = captures.record("memory_timeline", "pipelined")["parameters"]["chunks"]
    print(
        f"predicted with {pieces} chunks: {predict_ns(operations, rounds, pieces) / 1e6:.3f} ms a repetition"
    )
    print(f"measured: {captures.record('memory_timeline', 'pipelined')['results']}")
