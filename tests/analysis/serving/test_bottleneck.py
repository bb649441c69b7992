"""Each of seven names by the smallest timeline or launch that earns it; shares at their bounds."""

from typing import Any

import pandas as pd
import pytest

from labcode.analysis.serving import bottleneck
from labcode.errors import LabError

MS = 1_000_000


def ops(*rows: tuple[str, str, float, float, int]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["kind", "name", "start_ns", "end_ns", "device"])
    return table.assign(
        start_ns=(table["start_ns"] * MS).astype("int64"),
        end_ns=(table["end_ns"] * MS).astype("int64"),
        **dict.fromkeys(("pid", "context", "stream", "correlation", "bytes"), 0),
        graph_node=0,
        short_name=table["name"],
    )


KERNEL, COPY, TALK = (
    ("kernel", "gemm"),
    ("memcpy", "HtoD"),
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
)
SCENES: dict[str, list[tuple[Any, ...]]] = {
    "input": [(*KERNEL, 0, 3, 0), (*KERNEL, 7, 10, 0)],
    "launch": [(*KERNEL, k / 20, k / 20 + 0.02, 0) for k in range(200)],
    "transfer": [(*COPY, 0, 4, 0), (*KERNEL, 3, 10, 0)],
    "communication": [(*KERNEL, 0, 7, 0), (*TALK, 5, 10, 0)],
    "kernels": [(*KERNEL, 0, 10, 0), (*COPY, 2, 8, 0), (*TALK, 1, 9, 0)],
}


@pytest.mark.parametrize("name", list(SCENES))
def test_timelines_by_name(name: str) -> None:
    found = bottleneck.of_timeline(ops(*SCENES[name]), (0, 10 * MS))
    assert bottleneck.name_timeline(found) == name


def test_shares_by_hand_over_two_gpus() -> None:
    table = ops((*COPY, 0, 4, 0), (*KERNEL, 3, 8, 0), (*KERNEL, 0, 10, 1))
    found = bottleneck.of_timeline(table, (0, 10 * MS))
    assert found == pytest.approx({"idle": 0.1, "long_gaps": 0.5, "copying": 0.15, "talking": 0.0})
    found = bottleneck.of_timeline(ops((*KERNEL, -5, 4, 0)), (0, 10 * MS))
    assert found["idle"] == pytest.approx(0.6), "what lies outside of the window does not count"
    with pytest.raises(LabError, match=r"^no operation of a GPU lies in the window: there is nothing to j"):
        bottleneck.of_timeline(ops(), (0, 10))


@pytest.mark.parametrize(
    ("sm", "memory", "name"),
    [(0.6, 0.5, "compute"), (0.5, 0.6, "memory"), (0.59, 0.59, "latency"), (0.8, 0.8, "memory")],
)
def test_launches_by_name(sm: float, memory: float, name: str) -> None:
    assert bottleneck.name_launch({"sm": sm, "memory": memory}) == name
