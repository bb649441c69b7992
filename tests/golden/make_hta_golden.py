"""Shipped traces in; what Holistic Trace Analysis says of them out, as `tests/golden/hta.json.xz`.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis 'pandas<3'
    hta/bin/python tests/golden/make_hta_golden.py captures/h200 tests/golden/hta.json.xz

It needs nothing of this repository. HTA is asked for nanoseconds (``HTA_DISABLE_NS_ROUNDING``) and for all
steps. All times are in microseconds, as HTA gives them.
"""

import gzip
import json
import logging
import lzma
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RUNS = {  # the traces of a run, by name
    "torch_profiler/baseline": 1,
    "torch_profiler/improved": 1,
    "bottleneck_hunt/baseline": 1,
    "torch_distributed/improved": 2,
    "torch_distributed/straggler": 2,
}
OPERATORS = ("aten::linear", "MmBackward0", "aten::layer_norm")
QUEUED = 20  # HTA's limit of a full queue, for its default is reached in none of these traces
DIFFERENCE = ("torch_profiler/baseline", "torch_profiler/improved")
PATHS = ("torch_profiler/baseline", "torch_profiler/improved")
LAUNCHED = ("torch_distributed/baseline", "torch_distributed/improved")
LAUNCHES = ("cpu_duration", "gpu_duration", "launch_delay")


def comparable(content: dict[str, Any]) -> dict[str, Any]:
    """A trace without what HTA takes otherwise where launches count.

    Its statistics of launches know no calls of the driver, which are given the runtime's name here. A kernel
    whose launch lies before the recording it joins to whichever event comes first in the file, and so counts
    the gap before it as the host's; such kernels are left out.
    """
    events = content["traceEvents"]
    for event in events:
        if event.get("name") in ("cuLaunchKernel", "cuLaunchKernelEx"):
            event["name"] = "cudaLaunchKernel"
    calls = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    asked = {event.get("args", {}).get("correlation") for event in calls}
    on_gpu = ("kernel", "gpu_memcpy", "gpu_memset")
    kept = [e for e in events if e.get("cat") not in on_gpu or e["args"]["correlation"] in asked]
    return content | {"traceEvents": kept}


def traces_of(captures: Path, run: str) -> list[Path]:
    """The files of a run, by rank."""
    experiment, _, name = run.partition("/")
    return sorted((captures / experiment).glob(f"{name}.*trace.json.gz"))


def read(captures: Path, run: str, folder: Path, change: Callable[..., Any] = dict) -> Any:
    """HTA's traces of a run; it finds a rank by a pattern with a space, which the captures leave out."""
    from hta.trace_analysis import TraceAnalysis

    folder.mkdir(parents=True)
    files = {}
    for rank, path in enumerate(traces_of(captures, run)):
        files[rank] = str(folder / path.name.removesuffix(".gz"))
        Path(files[rank]).write_text(json.dumps(change(json.loads(gzip.decompress(path.read_bytes())))))
    return TraceAnalysis(trace_files=files, trace_dir=str(folder), include_last_profiler_step=True)


def rows(table: Any) -> list[dict[str, Any]]:
    """A table's rows; index and column levels become plain columns."""
    if table is None:
        return []
    table = table.reset_index()
    table.columns = [
        "/".join(str(part) for part in column if part) if isinstance(column, tuple) else str(column)
        for column in table.columns
    ]
    return json.loads(table.to_json(orient="records", double_precision=9))


def of_launches(theirs: Any) -> dict[str, Any]:
    """What HTA says of idle time, overlap, queues, launches and kernels; of launches, sums over them."""
    ranks = [0, 1]
    launches = theirs.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
    kernels = theirs.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=1000)[1]
    return {
        "idle_breakdown": [
            {"rank": rank, **row}
            for rank in ranks
            for row in rows(theirs.get_idle_time_breakdown(ranks=[rank], visualize=False)[0])
        ],
        "comm_overlap": rows(theirs.get_comm_comp_overlap(visualize=False)),
        "queue_length": rows(theirs.get_queue_length_summary(ranks=ranks)),
        "launch_stats": {
            rank: [
                len(table),
                *(table[name].describe()[["mean", "std", "50%"]].tolist() for name in LAUNCHES),
            ]
            for rank, table in launches.items()
        },
        "kernels": rows(kernels[["name", "rank", "kernel_type", "sum (us)"]]),
    }


def main(captures: Path, output: Path) -> None:
    """Ask HTA and write what it says."""
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    said: dict[str, Any] = {"hta": version("HolisticTraceAnalysis"), "runs": {}}
    traces = {}
    with tempfile.TemporaryDirectory() as temporary:
        for run in RUNS:
            folder = Path(temporary) / run
            theirs = traces[run] = read(captures, run, folder)
            assert len(traces_of(captures, run)) == RUNS[run], run
            ranks = list(range(RUNS[run]))
            series = theirs.get_queue_length_time_series(ranks)
            mine = said["runs"][run] = {
                "temporal_breakdown": rows(theirs.get_temporal_breakdown(visualize=False)),
                "memory_bandwidth": rows(theirs.get_memory_bw_summary(ranks)),
                "queue_full": rows(theirs.get_time_spent_blocked_on_full_queue(series, QUEUED)),
                "kernel_sequences": {
                    operator: rows(
                        theirs.get_frequent_cuda_kernel_sequences(
                            operator, str(folder), 2, 0, 5, visualize=False
                        )
                    )
                    for operator in OPERATORS
                },
            }
            if run in PATHS:
                graph, found = theirs.critical_path_analysis(0, "ProfilerStep", 0)
                assert found
                pieces = graph.get_critical_path_breakdown()
                mine["critical_path"] = pieces.groupby("bound_by")["duration"].sum().to_dict()
        said["launches"] = {
            run: of_launches(read(captures, run, Path(temporary) / "launches" / run, comparable))
            for run in LAUNCHED
        }
        from hta.trace_diff import TraceDiff

        before, after = (traces[run].t for run in DIFFERENCE)
        said["op_diff"] = rows(TraceDiff.compare_traces(before, after))
    output.write_bytes(lzma.compress(json.dumps(said, indent=1).encode()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
