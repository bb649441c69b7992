"""The same numbers as other tools: the recipes of Nsight Systems, and what is tested against HTA."""

import shutil
from pathlib import Path

import pytest

from labcode.analysis.ranks import pacing, stragglers
from labcode.analysis.ranks.run import open_run
from labcode.analysis.stats.kineto_gpu import comm_overlap
from labcode.reports.kineto.report import open_trace

CAPTURES = Path(__file__).parents[3] / "captures/h200"
# What nccl_sum and nccl_gpu_proj_sum of Nsight Systems 2024.2 say of this capture, rank by rank.
SUMS = [2749581, 2987924, 2661855, 2742603]
SUMS_ON_GPU = [39353587, 30012793, 34419995, 31988973]
OF_ALL = (600, 18569.9, 4595.1, 13570.0, 15324.5, 17134.2, 20821.5, 51341.0, 11141963.0)
OF_ALL_ON_GPU = (600, 226292.2, 56523.3, 11712, 203702.0, 222310.2, 308492.2, 566554, 135775348)


def test_nccl_as_the_recipes_sum_it_up(tmp_path: Path) -> None:
    shutil.copy(CAPTURES / "multi_gpu/improved.nsys.xz", tmp_path / "node0.nsys.xz")
    run = open_run(tmp_path)
    for table, sums, of_all in (
        (pacing.nccl_sum(run), SUMS, OF_ALL),
        (pacing.nccl_gpu_proj_sum(run), SUMS_ON_GPU, OF_ALL_ON_GPU),
    ):
        assert list(table["count"]) == [150] * 4 and list(table["sum_ns"]) == sums
        (row,) = pacing.over_all(table).drop(columns="name").itertuples(index=False, name=None)
        assert row == pytest.approx(of_all, abs=0.06)


def test_communication_of_each_rank_as_in_their_trace_opened_as_one(tmp_path: Path) -> None:
    for rank in range(2):
        shutil.copy(CAPTURES / f"torch_distributed/straggler.rank{rank}.trace.json.gz", tmp_path)
    together = comm_overlap(open_trace(tmp_path))
    apart = stragglers.by_rank(open_run(tmp_path))
    for name in ("comm_ns", "compute_ns", "hidden_ns", "exposed_ns"):
        assert list(apart[name]) == list(together[name]), name
    assert int(apart.loc[apart["delay_ns"].idxmax(), "rank"]) == 1
    assert apart["cause"].tolist() == ["", "slow compute"]
