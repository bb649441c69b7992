"""The programs that measure Python GPU parts, on the CPU: right and wrong answers, crashes, time limits."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from labcode.grading import gpu
from labcode.grading.task import beside
from tests.exercises.support import ROOT, part, solution

TRAINING, REDUCTION, PIPELINE = "nsys-ex01c", "nsys-ex04c", "serving-ex34b"
TRAINS = ROOT / "solutions/nsys/ex01_timeline_basics/c_harness.py"
REDUCES = ROOT / "solutions/nsys/ex04_multi_gpu_timeline/c_harness.py"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def answer(tmp_path: Path, source: str) -> Path:
    file = tmp_path / "c_answer.py"
    file.write_text(source, encoding="utf-8")
    return file


def refused(tmp_path: Path, program: Path, source: str, limit_s: float = 120.0) -> str:
    with pytest.raises(gpu.StoppedError) as stopped:
        gpu.measure_python(program, answer(tmp_path, source), "cpu", limit_s=limit_s)
    verdict = stopped.value.verdict
    assert verdict.status == "failed"
    return "\n".join((verdict.headline, *verdict.details))


@pytest.fixture
def training_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a training loop in this process, which has torch already."""
    training: Any = beside(*part(TRAINING), "harness")

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "exercise", sys)

    def run(source: str) -> dict[str, Any]:
        record = tmp_path / "record.json"
        assert training.main([str(answer(tmp_path, source)), str(record), "7", "cpu"]) == 0
        found = json.loads(record.read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    return run


def test_right_training_loops(training_here: Any) -> None:
    from labcode.grading.generate import starter

    assert training_here(solution(TRAINING)) == {"checked_only": True}
    assert training_here(starter(solution(TRAINING), "c_training_loop.py")) == {"checked_only": True}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (".float() - mean) / scale", ".float() - mean)", "loss of step 0 is .*: normalize the same way"),
        ("        optimizer.step()\n", "", "the trained parameters do not: is the last step taken"),
        (
            "optimizer.step()\n",
            "optimizer.step() if losses else None\n",
            "is the last step taken|does every step zero, backpropagate and step",
        ),
        ("        optimizer.zero_grad()\n", "", "the trained parameters do not|does every step zero"),
        (
            "torch.stack(losses).tolist()",
            "torch.stack(losses)",
            "return a list of Python numbers, one a step",
        ),
        ("torch.stack(losses).tolist()", "torch.stack(losses).tolist()[1:]", "0 losses for 1 steps"),
        ("for pixels, labels in batches:", "for pixels, labels in batches[:5]:", "5 losses for 7 steps"),
        (
            "torch.stack(losses)",
            "torch.stuck(losses)",
            r"c_answer.py, line \d+, in train:.*\n.*AttributeError",
        ),
        ("def train(", "def train_it(", "the file has no 'train': keep the starter's names"),
        (
            "import torch\n",
            "import torch, no_such_thing\n",
            "imports 'no_such_thing', which is not installed",
        ),
        ("    losses = []\n", "    losses = [\n", "SyntaxError"),
    ],
)
def test_wrong_training_loops(training_here: Any, old: str, new: str, words: str) -> None:
    source = solution(TRAINING)
    assert old in source
    said = "\n".join(training_here(source.replace(old, new, 1))["wrong"])
    assert re.search(words, said, re.DOTALL), said


def test_an_error_of_the_program_itself_is_not_the_learners(tmp_path: Path) -> None:
    from labcode.grading.harness import common

    def broken() -> dict[str, Any]:
        raise RuntimeError("CUDA error")

    with pytest.raises(RuntimeError, match="CUDA error"):
        common.report(tmp_path / "record.json", answer(tmp_path, ""), broken)
    assert not (tmp_path / "record.json").exists()


def test_alternate_takes_turns_after_a_warm_up() -> None:
    from labcode.grading.harness import common

    order: list[str] = []
    first, second = common.alternate(lambda: order.append("a"), lambda: order.append("b"), 3)
    assert "".join(order) == "ab" * 4
    assert first >= 0 and second >= 0


def test_a_training_loop_in_a_process_of_its_own(tmp_path: Path) -> None:
    file = answer(tmp_path, solution(TRAINING))
    assert gpu.measure_python(TRAINS, file, "cpu", limit_s=120) == {"checked_only": True}
    assert [path.name for path in tmp_path.iterdir()] == ["c_answer.py"]


def test_a_training_loop_that_ends_the_program(tmp_path: Path) -> None:
    source = solution(TRAINING).replace("    losses = []\n", "    raise SystemExit\n", 1)
    assert "SystemExit" in refused(tmp_path, TRAINS, source)


def test_right_reduction(tmp_path: Path) -> None:
    file = answer(tmp_path, solution(REDUCTION))
    assert gpu.measure_python(REDUCES, file, "cpu", limit_s=120) == {
        "checked_only": True,
        "ranks": 2,
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("            flat /= self.ranks\n", "", "it is the sum over the ranks; the mean is asked for"),
        ("self.missing[number] -= 1", "self.missing[number] -= one", "NameError: name 'one' is not defined"),
    ],
)
def test_wrong_reductions(tmp_path: Path, old: str, new: str, words: str) -> None:
    source = solution(REDUCTION)
    assert old in source
    assert words in refused(tmp_path, REDUCES, source.replace(old, new, 1))


def test_a_rank_that_hangs_is_stopped(tmp_path: Path) -> None:
    first = "        self.ranks = ranks\n"
    endless = (
        f"{first}        import time\n        while dist.get_rank() == 1:\n            time.sleep(0.01)\n"
    )
    source = solution(REDUCTION).replace(first, endless, 1)
    assert "took longer than 3 s and was stopped" in refused(tmp_path, REDUCES, source, limit_s=3)


@pytest.fixture
def pipeline_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a serving pipeline in this process."""
    import torch

    harness: Any = beside(*part(PIPELINE), "harness")
    monkeypatch.setitem(sys.modules, "exercise", sys)
    yield lambda source: harness.measure(answer(tmp_path, source), 7, torch.device("cpu"))
    torch.set_grad_enabled(True)


def test_pipelines_on_the_machine_that_computes(pipeline_here: Any) -> None:
    from labcode.analysis.serving.pipeline import diagnosis
    from labcode.grading.generate import starter
    from labcode.grading.harness.common import WrongAnswerError

    found = pipeline_here(solution(PIPELINE))
    assert found["checked_only"] and found["counts"] == found["least"]
    found = pipeline_here(starter(solution(PIPELINE), "b_on_a_gpu.py"))
    assert len(diagnosis(found["counts"], found["least"])) == 7
    with pytest.raises(
        WrongAnswerError, match=r"^the texts are not those of the slow pipeline: part a finds"
    ):
        pipeline_here(solution(PIPELINE).replace("new[number] = [token]", "new[number] = [token + 1]"))
    with pytest.raises(WrongAnswerError, match=r"^more than 64 caches: one for each sequence is enough$"):
        pipeline_here(
            solution(PIPELINE).replace("[caches[number] for number in running]", "[Cache() for _ in new]")
        )
