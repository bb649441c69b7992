"""Made-up ranks: what was planted is found, in folders of traces opened together and rank by rank."""

from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.ranks import synthetic
from labcode.analysis.ranks.run import open_run
from labcode.analysis.ranks.synthetic import Planted, main, write
from labcode.errors import LabError
from labcode.verbs.diagnose.verdicts import diagnose
from tests.support import ranks, traces

CAPTURE = Path(__file__).parents[3] / "captures/h200/torch_distributed/improved.rank0.trace.json.gz"


@pytest.mark.parametrize("cause", synthetic.CAUSES)
def test_what_was_planted_is_found(tmp_path: Path, cause: str) -> None:
    arguments = [
        "-o",
        str(tmp_path / "made"),
        "--ranks",
        "6",
        "--slow",
        "4",
        "--cause",
        cause,
        "--kernels",
        "20",
    ]
    assert main([str(CAPTURE), *arguments]) == 0
    run = open_run(tmp_path / "made")
    rule = "slow-link" if cause == "link" else "late-rank"
    found = {verdict.rule: verdict for verdict in diagnose(run)}[rule]
    said = {"link": "rank 4 leaves", "compute": "slow compute", "start": "late start"}[cause]
    assert found.status == "found" and "rank 4" in found.message and said in found.message
    assert max(run.clocks.residual_ns) < 5_000 < max(abs(run.clocks.told_ns))


def test_without_a_slow_rank_nobody_is_blamed(tmp_path: Path) -> None:
    with reports.open_timeline(CAPTURE, "timeline") as report:
        write(report, tmp_path / "made", Planted(6, kernels=20))
        with pytest.raises(LabError, match="there already"):
            write(report, tmp_path / "made", Planted(6, kernels=20))
        for planted, message in (
            (Planted(4, slow=4), "--slow 4: choose one of the ranks 0 to 3, of two or more ranks"),
            (Planted(1), "of two or more ranks"),
            (Planted(4, cause="cable"), "--cause cable: choose one of compute, link, start"),
        ):
            with pytest.raises(LabError, match=message):
                write(report, tmp_path / "other", planted)
    found = {verdict.rule: verdict.status for verdict in diagnose(open_run(tmp_path / "made"))}
    assert found["slow-link"] == "not found" and found["late-rank"] == "not found"


def test_a_capture_without_collectives_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ranks.rank(tmp_path, 0, talks=False)
    with pytest.raises(SystemExit) as ended:
        main([str(path), "-o", str(tmp_path / "made")])
    assert ended.value.code == 2
    assert "no step with kernels and collectives (NCCL) to make ranks of" in capsys.readouterr().err


def test_an_nsys_capture_serves_as_well(tmp_path: Path) -> None:
    assert main([str(ranks.rank(tmp_path, 0)), "-o", str(tmp_path / "made"), "--ranks", "3"]) == 0
    assert len(open_run(tmp_path / "made").lanes) == 3
    assert traces.NCCL.startswith("nccl")
