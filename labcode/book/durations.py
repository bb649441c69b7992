"""How long the experiments of capture sets took: sets in, rows of text for a table out."""

from collections.abc import Sequence

from labcode.store import CaptureSet, ExperimentRecord

_TOOLS = {
    "nsys": "Nsight Systems",
    "ncu": "Nsight Compute",
    "torch": "PyTorch's profiler",
    "memory": "PyTorch's allocator",
    "power": "the power meter",
    "bench": "timed without a profiler",
}
_ABSENT = "–"


def by_tool(sets: Sequence[CaptureSet]) -> list[tuple[str, ...]]:
    """A row for each recording tool, for each number of GPUs of a machine, for all, and for the days: what it
    is, and of each set experiments and minutes.
    """
    held = [list(captures.experiments.values()) for captures in sets]
    rows = [
        (title, *(_together([record for record in records if record.tool == tool]) for records in held))
        for tool, title in _TOOLS.items()
    ]
    by_gpus = [_by_gpus(captures) for captures in sets]
    for gpus in sorted({gpus for groups in by_gpus for gpus in groups}):
        title = f"on machines with {gpus} GPU" + "s" * (gpus != 1)
        rows.append((title, *(_together(groups.get(gpus, [])) for groups in by_gpus)))
    days = (str(len({record.captured for record in records})) for records in held)
    return [*rows, ("all", *map(_together, held)), ("on so many days", *days)]


def _by_gpus(captures: CaptureSet) -> dict[int, list[ExperimentRecord]]:
    groups: dict[int, list[ExperimentRecord]] = {}
    for record in captures.experiments.values():
        groups.setdefault(captures.machines[record.machine].get("gpu_count") or 0, []).append(record)
    return groups


def by_experiment(sets: Sequence[CaptureSet]) -> list[tuple[str, ...]]:
    """A row for each experiment, the longest of the first set that has it first: its id, and seconds."""
    took = [{name: record.wall_s for name, record in captures.experiments.items()} for captures in sets]
    first = {name: seconds for one in reversed(took) for name, seconds in one.items()}
    names = sorted(first, key=lambda name: (-first[name], name))
    return [(name, *(f"{one[name]:.0f}" if name in one else _ABSENT for one in took)) for name in names]


def _together(records: Sequence[ExperimentRecord]) -> str:
    minutes = sum(record.wall_s for record in records) / 60
    return f"{len(records)} in {minutes:.1f} min" if records else _ABSENT
