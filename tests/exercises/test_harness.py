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
DECODING = "serving-ex32c"
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


@pytest.fixture
def decoding_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Checks a decoding in this process, and times it once, all with a model that is tiny."""
    import torch

    from labcode.grading.harness import decoder

    harness: Any = beside(*part(DECODING), "harness")
    monkeypatch.setitem(sys.modules, "exercise", sys)
    monkeypatch.setattr(harness, "ON_CPU", decoder.TINY)
    monkeypatch.setattr(harness, "ROUNDS", 1)
    monkeypatch.setattr(harness, "COUNT", 4)
    threads = torch.get_num_threads()
    yield lambda source: harness.measure(answer(tmp_path, source), 7, torch.device("cpu"))
    torch.set_grad_enabled(True)
    torch.set_num_threads(threads)


def test_right_decodings(decoding_here: Any) -> None:
    from labcode.grading.generate import starter

    for source in (solution(DECODING), starter(solution(DECODING), "c_decoder.py")):
        found = decoding_here(source)
        assert (found["device"], found["name"]) == ("cpu", "on the CPU")
        assert found["learner_ms"] > 0 and found["baseline_ms"] > 0


def test_the_starter_has_the_model_that_is_measured_beside_it(tmp_path: Path) -> None:
    import torch

    from labcode.grading import worker
    from labcode.grading.generate import starter
    from labcode.grading.harness import decoder

    own = worker.load(answer(tmp_path, starter(solution(DECODING), "c_decoder.py")))
    weights = decoder.make(decoder.TINY, 3, torch.device("cpu"))
    assert own["decode"](weights, [5, 6], 4) == decoder.decode(weights, [5, 6], 4)
    assert own["VOCABULARY"] == decoder.VOCABULARY
    made = own["make"](32, 2, 2, torch.device("cpu"))
    assert [one.shape for one in made.layers[0]] == [one.shape for one in weights.layers[0]]
    assert made.embedding.shape == weights.embedding.shape


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "is_causal=len(x) > 1",
            "is_causal=False",
            "5 tokens of prompt: token .*each token of the prompt also sees those",
        ),
        (
            "    wide, device =",
            "    prompt = prompt[-1:]\n    wide, device =",
            "likely: of the prompt only the last",
        ),
        (
            "is_causal=len(x) > 1",
            "is_causal=len(x) > 1, scale=1.0",
            "scores are divided by the root of a head's width",
        ),
        ("(functional.rms_norm(x, wide, eps=1e-6) @ three)", "(x @ three)", "query, key and value come from"),
        (
            "held, len(prompt) + place)",
            "held, len(prompt))",
            "a token sees those of the prompt and itself, not",
        ),
        ("gelu(functional.rms_norm(x, wide, eps=1e-6)", "gelu((x)", "is what is widened"),
        (
            "int(token) for token in tokens.tolist()",
            "token for token in tokens",
            "return a list of Python num",
        ),
        (
            "return [int(token)",
            "return prompt + [int(token)",
            "2 tokens, and 1 were asked for: the prompt is",
        ),
        ("range(count):", "range(count - 1):", "1 token of prompt: token 0 is 0, the likeliest is|token 5"),
        (
            "    wide, device =",
            "    weights.embedding.mul_(1.001)\n    wide, device =",
            "the weights were changed",
        ),
        ("int(token) for token", "int(token) + 4096 for token", "which the vocabulary lacks"),
    ],
)
def test_wrong_decodings(decoding_here: Any, old: str, new: str, words: str) -> None:
    from labcode.grading.harness.common import WrongAnswerError

    model, sign, source = solution(DECODING).partition("def passed(")  # what is above stays with the learner
    assert old in source
    with pytest.raises(WrongAnswerError) as wrong:
        decoding_here(model + sign + source.replace(old, new, 1))
    said = "\n".join(wrong.value.args)
    assert re.search(words, said, re.DOTALL), said


def test_an_answer_cannot_slow_down_what_it_is_compared_with(
    decoding_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside(*part(DECODING), "harness"), "SMALL", ((1, 1),))
    slow = "from time import process_time\n"
    slow += (
        "def wait(x):\n    until = process_time() + 0.002\n    while process_time() < until:\n        pass\n"
    )
    source = (
        solution(DECODING)
        + slow
        + "gelu = functional.gelu\nfunctional.gelu = lambda x: (wait(x), gelu(x))[1]\n"
    )
    kept = sys.modules["torch"].nn.functional.gelu
    try:
        assert decoding_here(source)["baseline_ms"] < 40
    finally:
        sys.modules["torch"].nn.functional.gelu = kept


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
        pytest.param(
            *("            flat /= self.ranks\n", "", "it is the sum over the ranks; the mean is asked for"),
            marks=pytest.mark.slow,
        ),
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
