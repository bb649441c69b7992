"""The decoder: three ways of attention are one, gradients too; ranges, records; out of memory by name."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.analysis.lm import decoder  # noqa: E402
from labcode.analysis.lm.decoder import SIZES  # noqa: E402
from labcode.errors import LabError  # noqa: E402
from labcode.experiments.lm.transformer import model as transformer_model  # noqa: E402
from labcode.experiments.lm.transformer import program as transformer  # noqa: E402
from labcode.experiments.lm.transformer import steps as transformer_steps  # noqa: E402
from labcode.experiments.lm.transformer.steps import PASSES, Setup, Times  # noqa: E402
from labcode.experiments.shared.marks import marks  # noqa: E402
from labcode.experiments.shared.recording import REQUEST, Request  # noqa: E402
from tests.support.records import recorded  # noqa: E402

CPU = torch.device("cpu")
TINY = Setup(SIZES["tiny"], 2, 16)
FLAGS = [
    *("--device", "cpu", "--size", "tiny", "--batch", "2", "--context", "16"),
    *("--warmup", "2", "--steps", "3"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def heads(seed: int = 0) -> list[Any]:
    torch.manual_seed(seed)
    return [torch.randn(2, 3, 9, 8, dtype=torch.float64) for _ in range(3)]


def test_naive_attention_is_the_fused_one_and_sees_no_future() -> None:
    query, key, value = heads()
    hidden = transformer_model.hidden_places(9, CPU)
    assert hidden.sum() == 9 * 8 / 2 and hidden[0, 1] and not hidden[1, 1]
    naive = transformer_model.attend_naive(query, key, value, hidden)
    assert torch.allclose(naive, transformer_model.attend_fused(query, key, value, "sdpa"))
    assert torch.allclose(naive[:, :, 0], value[:, :, 0]), "the first place sees itself alone"
    value[:, :, 5:] = 0
    again = transformer_model.attend_naive(query, key, value, hidden)
    assert torch.allclose(again[:, :, :5], naive[:, :, :5]) and not torch.allclose(again, naive)


def test_attention_by_hand() -> None:
    query = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]], dtype=torch.float64)
    value = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]], dtype=torch.float64)
    mixed = transformer_model.attend_naive(query, query, value, transformer_model.hidden_places(2, CPU))
    second = math.exp(4 / math.sqrt(2))
    assert mixed[0, 0, 1].tolist() == pytest.approx([1 / (1 + second), second / (1 + second)])


@pytest.mark.parametrize("attention", ["sdpa", "flash"])
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_are_those_of_the_naive_model(attention: str, recompute: bool) -> None:
    found = []
    for way, again in (("naive", False), (attention, recompute)):
        trainer = transformer_steps.make_trainer(Setup(SIZES["tiny"], 2, 16, "fp32", way, False, again), CPU)
        transformer_model.loss_of(trainer.model(trainer.tokens), trainer.targets).backward()
        found.append([parameter.grad for parameter in trainer.model.parameters()])
    assert len(found[0]) == len(found[1]) > 10
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))


def test_parameters_and_flops_are_those_of_the_arithmetic() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    trainer = transformer_steps.make_trainer(TINY, CPU)
    assert sum(p.numel() for p in trainer.model.parameters()) == decoder.parameter_count(TINY.size, 16)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        loss = transformer_model.loss_of(trainer.model(trainer.tokens), trainer.targets)
    assert forward.get_total_flops() == decoder.matmul_flops(TINY.size, 2, 16)
    with FlopCounterMode(display=False) as both:
        loss = transformer_model.loss_of(trainer.model(trainer.tokens), trainer.targets)
        loss.backward()
    assert both.get_total_flops() == decoder.matmul_flops(TINY.size, 2, 16, backward=True)


def test_ranges_name_the_three_parts_of_attention_once_a_block() -> None:
    opened: list[str] = []
    open_now: list[str] = []

    @contextmanager
    def mark(name: str) -> Iterator[None]:
        open_now.append(name)
        opened.append("/".join(open_now))
        yield
        open_now.pop()

    trainer = transformer_steps.make_trainer(TINY, CPU, mark)
    transformer_steps.step(trainer, PASSES["train"], mark, Times())
    for block in range(2):
        for part in ("projections", "scores", "mask", "softmax", "values", "output"):
            assert opened.count(f"forward/block {block}/attention/{part}") == 1
    assert [name for name in opened if "/" not in name] == ["forward", "backward", "optimizer"]
    assert "forward/loss" in opened and "forward/logits" in opened


def test_record_ranges_are_seen_by_the_profiler() -> None:
    mark = marks("record", CPU)
    trainer = transformer_steps.make_trainer(TINY, CPU, mark)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        transformer_steps.step(trainer, PASSES["forward"], mark)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["softmax"] == counts["scores"] == counts["values"] == 2 and counts["forward"] == 1


def test_forward_variant_keeps_nothing_for_a_backward_pass() -> None:
    trainer = transformer_steps.make_trainer(TINY, CPU)
    assert not transformer_steps.step(trainer, PASSES["forward"]).requires_grad
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_dtypes_under_autocast() -> None:
    setup = Setup(SIZES["tiny"], 2, 16, "bf16")
    rows = {
        r["tensor"]: r["dtype"] for r in transformer_steps.dtypes(transformer_steps.make_trainer(setup, CPU))
    }
    assert (
        rows["parameters"] == rows["gradients"] == rows["loss"] == rows["output of layer_norm"] == "float32"
    )
    assert rows["output of linear"] == rows["logits"] == rows["output of matmul"] == "bfloat16"
    plain = {r["dtype"] for r in transformer_steps.dtypes(transformer_steps.make_trainer(TINY, CPU))}
    assert plain == {"float32"}


def test_peaks_are_told_pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    used = iter(range(100, 200, 10))

    def fake(name: str, value: Callable[[], Any]) -> None:
        def answer(*_: object) -> Any:
            asked.append(name)
            return value()

        monkeypatch.setattr(torch.cuda, name, answer)

    fake("memory_allocated", lambda: next(used))
    fake("max_memory_allocated", lambda: 1000 + len(asked))
    fake("reset_peak_memory_stats", lambda: None)
    fake("memory_reserved", lambda: 5000)
    trainer = transformer_steps.make_trainer(TINY, CPU)
    found = transformer_steps.memory_peaks(trainer, PASSES["train"])
    assert found["before_step_bytes"] == 100 and found["reserved_bytes"] == 5000
    assert [found[f"after_{name}_bytes"] for name in PASSES["train"]] == [110, 120, 130]
    assert asked.count("reset_peak_memory_stats") == 3
    assert found["step_peak_bytes"] == found["optimizer_peak_bytes"] > found["forward_peak_bytes"] > 1000


def test_relative_error_tells_a_wrong_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transformer_steps.relative_error(TINY, CPU) < 1e-5
    setup = Setup(SIZES["tiny"], 2, 16, "bf16", "sdpa")
    assert 1e-4 < transformer_steps.relative_error(setup, CPU) < transformer.LARGEST_ERROR["bf16"]

    def without_mask(query: Any, key: Any, value: Any, attention: str) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    monkeypatch.setattr(transformer_model, "attend_fused", without_mask)
    assert transformer_steps.relative_error(setup, CPU) > 2 * transformer.LARGEST_ERROR["bf16"]


@pytest.mark.parametrize("variant", transformer.VARIANTS)
def test_record_has_times_of_each_pass_with_the_warm_up_apart(tmp_path: Path, variant: str) -> None:
    record = recorded(transformer, tmp_path, *FLAGS, "--variant", variant)
    results = record["results"]
    for name in ("forward", "backward", "optimizer"):
        assert (f"{name}_host_ms" in results) == (name in PASSES[variant])
    assert len(results["forward_host_ms"]) == 3 and len(results["warmup_forward_host_ms"]) == 2
    total = sum(results[f"{name}_host_ms"][1] for name in PASSES[variant])
    assert results["step_host_ms"][1] == pytest.approx(total, rel=1e-4)
    assert len(results["losses"]) == 5 and results["flops"]["scores"] == 2 * 2 * 2 * 4 * 16 * 16 * 8
    assert {"losses_finite", "matches_float64"} <= set(record["checks"])
    assert ("loss_falls" in record["checks"]) == (variant == "train")
    assert record["parameters"]["model_d_model"] == 32


def test_a_window_records_the_last_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request("torch", str(tmp_path), "run").environment()
    monkeypatch.setenv(REQUEST, request[REQUEST])
    assert (
        len(
            recorded(transformer, tmp_path, *FLAGS, "--window", "2", "--ranges", "record")["results"][
                "forward_host_ms"
            ]
        )
        == 3
    )
    events = json.loads((tmp_path / "run.trace.json").read_text())["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") == "user_annotation"]
    assert [name for name in names if name.startswith("step")] == ["step 1", "step 2"]


def test_losses_that_are_not_numbers_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transformer_steps, "LEARNING_RATE", 1e30)
    assert transformer.main([*FLAGS, "--variant", "train"]) == 1
    assert "transformer: check losses_finite failed" in capsys.readouterr().err


def test_out_of_memory_names_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore lines")

    monkeypatch.setattr(transformer_steps, "make_trainer", full)
    with pytest.raises(LabError, match=r"tiny \(forward, batch 2, context 16.*does not fit.*2\.00 GiB\.\)$"):
        transformer.main(FLAGS)


def test_flash_needs_16_bits() -> None:
    with pytest.raises(LabError, match="flash takes 16-bit inputs and --precision is fp32; choose bf16"):
        transformer.main(["--attention", "flash"])


@pytest.mark.slow
def test_compiled_model_is_checked_against_the_eager_one(tmp_path: Path) -> None:
    assert recorded(transformer, tmp_path, *FLAGS, "--variant", "train", "--compile")["checks"][
        "compiled_matches_eager"
    ]["passed"]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "flags",
    [
        ["--variant", "train"],
        ["--variant", "train", "--precision", "tf32"],
        ["--variant", "train", "--precision", "bf16", "--attention", "flash", "--recompute"],
        ["--variant", "forward", "--precision", "bf16", "--attention", "sdpa"],
    ],
)
def test_small_model_on_a_gpu(tmp_path: Path, flags: list[str]) -> None:
    results = recorded(transformer, tmp_path, *flags, "--steps", "4", "--warmup", "2")["results"]
    for host, event in zip(results["forward_host_ms"], results["forward_event_ms"], strict=True):
        assert 0 < event <= host
    assert results["memory_step_peak_bytes"] >= results["memory_before_step_bytes"] > 4 * 10**8
