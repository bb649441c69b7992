"""The decoder over a grid: every case is there, one that does not fit as such."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.lm.lm_grid import program as lm_grid  # noqa: E402
from labcode.experiments.lm.transformer import steps as transformer_steps  # noqa: E402
from tests.support.records import recorded  # noqa: E402

SMALL = [
    *("--device", "cpu", "--sizes", "tiny", "--contexts", "8,16", "--context", "16", "--batch", "2"),
    *("--steps", "2", "--warmup", "1"),
]


def cases(path: Path, *flags: str) -> list[dict[str, Any]]:
    assert lm_grid.main([*SMALL, *flags, "--json", str(path)]) == 0
    record = json.loads(path.read_text())
    assert all(check["passed"] for check in record["checks"].values())
    return list(record["results"]["cases"])


def test_precisions_of_forward_pass_and_training(tmp_path: Path) -> None:
    found = cases(tmp_path / "r.json", "--variant", "precision")
    assert [(c["precision"], c["passes"]) for c in found] == [
        *(("fp32", "forward"), ("fp32", "train"), ("tf32", "forward")),
        *(("tf32", "train"), ("bf16", "forward"), ("bf16", "train")),
    ]
    assert len(found[1]["optimizer_host_ms"]) == 2 and "backward_host_ms" not in found[0]
    assert found[1]["matmul_flops"] == 3 * found[0]["matmul_flops"]


def test_memory_over_contexts_with_and_without_checkpoints(tmp_path: Path) -> None:
    found = cases(tmp_path / "r.json", "--variant", "memory")
    assert len(found) == 12 and {c["context"] for c in found} == {8, 16}
    assert {(c["passes"], c["recompute"]) for c in found} == {
        *(("forward", False), ("train", False), ("train", True)),
    }
    same = [
        c["loss"] for c in found if c["context"] == 8 and c["precision"] == "fp32" and c["passes"] == "train"
    ]
    assert same[0] == pytest.approx(same[1]), "checkpointing changes no loss"


def test_what_does_not_fit_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = transformer_steps.make_trainer

    def limited(setup: Any, *rest: Any) -> Any:
        if setup.context == 16:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return make(setup, *rest)

    monkeypatch.setattr(transformer_steps, "make_trainer", limited)
    found = cases(tmp_path / "r.json", "--variant", "memory")
    assert [case["fits"] for case in found] == [True] * 6 + [False] * 6
    assert "tiny, context 16, bf16, train, recomputed: out of memory" in capsys.readouterr().out


def test_unknown_sizes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lm_grid.main(["--sizes", "small,huge"])
    assert "huge: no such size (small," in capsys.readouterr().err


@pytest.mark.gpu
def test_memory_of_the_small_model_on_a_gpu(tmp_path: Path) -> None:
    flags = "--variant", "memory", "--sizes", "small", "--contexts", "128,512"
    found = recorded(lm_grid, tmp_path, *flags, "--steps", "1", "--warmup", "1")["results"]["cases"]
    peaks = {(c["context"], c["passes"], c["recompute"], c["precision"]): c["step_peak_bytes"] for c in found}
    assert peaks[512, "train", False, "fp32"] > peaks[128, "train", False, "fp32"]
    assert peaks[512, "train", True, "fp32"] < peaks[512, "train", False, "fp32"]
    assert peaks[512, "forward", False, "fp32"] < peaks[512, "train", False, "fp32"]
