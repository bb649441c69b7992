"""Programs for the power meter, on the CPU: windows in order and counted, results checked, bad flags told."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.errors import ToolError  # noqa: E402
from labcode.experiments.energy.cores import program as energy_cores  # noqa: E402
from labcode.experiments.energy.lm import program as energy_lm  # noqa: E402
from labcode.experiments.energy.matmul import program as energy_matmul  # noqa: E402
from labcode.experiments.energy.products import program as energy_products  # noqa: E402
from labcode.experiments.energy.ranges import program as energy_ranges  # noqa: E402
from labcode.experiments.energy.sensor import program as energy_sensor  # noqa: E402
from labcode.experiments.shared.windows import Windows, Zeus  # noqa: E402

CPU = torch.device("cpu")
SHORT = ("--seconds", "0.02", "--warmup", "0.01")


def ran(module: Any, tmp_path: Path, *words: str) -> dict[str, Any]:
    file = tmp_path / "record.json"
    assert module.main(["--device", "cpu", "--json", str(file), *words]) == 0
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def in_order(windows: dict[str, Any]) -> bool:
    edges = [edge for one in windows.values() for edge in (one["begin_ns"], one["end_ns"])]
    return edges == sorted(edges)


def test_numbers_are_of_all_calls_and_words_stay(tmp_path: Path) -> None:
    calls: list[int] = []
    windows = Windows(CPU, 0.05, 0.0)
    entry = windows.repeat("one", lambda: calls.append(1), flop=3, kind="zeros")
    before = len(calls) - entry["repetitions"]
    assert entry["flop"] == 3 * entry["repetitions"]
    assert entry["kind"] == "zeros"
    assert before >= 2
    assert entry["end_ns"] - entry["begin_ns"] >= 50e6


def test_without_zeus_its_record_says_so() -> None:
    zeus, facts = Zeus(CPU), {"kind": "zeros"}
    with zeus.over(facts):
        pass
    assert zeus.version.startswith("not installed")
    assert facts == {"kind": "zeros"}


def test_matmul_has_long_windows_then_operands_and_precisions(tmp_path: Path) -> None:
    record = ran(
        *(energy_matmul, tmp_path, *SHORT),
        *("--size", "64", "--long", "0.04", "--settle", "0.01", "--repeats", "2"),
    )
    windows = record["results"]["windows"]
    assert in_order(windows)
    assert list(windows)[:5] == ["repeat 1", "repeat 2", "bf16 random", "bf16 constant", "bf16 zeros"]
    assert record["results"]["left_out"] == {"fp8 random": "this GPU has no tensor cores for fp8"}
    assert windows["repeat 1"]["flop"] == 2 * 64**3 * windows["repeat 1"]["repetitions"]


def test_a_wrong_matmul_is_found() -> None:
    matmul = energy_matmul.make(torch, "fp32", "random", 16, CPU)
    assert not energy_matmul.check(torch, matmul, "fp32").passed  # poisoned: it has not run
    matmul.call()
    assert energy_matmul.check(torch, matmul, "fp32").passed
    matmul.result()[0, 0] += 1
    assert not energy_matmul.check(torch, matmul, "fp32").passed


def test_products_are_measured_by_size_and_kernel_and_say_what_cannot_run(tmp_path: Path) -> None:
    record = ran(energy_products, tmp_path, *SHORT, "--sizes", "16,32,64", "--settle", "0.01")
    windows = record["results"]["windows"]
    assert in_order(windows)
    assert [(one["size"], one["values"]) for one in windows.values()] == [
        (16, "normal"),
        (32, "normal"),
        (64, "normal"),
        (32, "uniform"),
    ]
    assert windows["cuBLAS, 64 normal"]["flop"] == 2 * 64**3 * windows["cuBLAS, 64 normal"]["repetitions"]
    assert set(record["results"]["left_out"]) == {name.replace("cuBLAS", "this book's") for name in windows}


def test_uniform_operands_lie_between_zero_and_one() -> None:
    made = energy_products.Case("cuBLAS", "uniform", 32).make(torch, CPU)
    assert all(float(one.min()) >= 0 and float(one.max()) <= 1 for one in (made.left, made.right))
    made.call()
    assert energy_matmul.check(torch, made, "bf16").passed


def whole_on_the_cpu(made: energy_matmul.Matmul, blocks: int) -> energy_matmul.Matmul:
    assert blocks in (2, 4)
    return made


def cores_on_the_cpu(made: energy_matmul.Matmul, blocks: int) -> energy_matmul.Matmul:
    """What the kernel leaves: of one tile, the products of the first stages, over and over."""
    out, held, (rows, columns) = made.result(), energy_cores.STAGES * energy_cores.DEPTH, (128, 256)

    def call() -> None:
        rounds = made.left.shape[1] // held
        out[:rows, :columns] = rounds * (
            made.left[:rows, :held].float() @ made.right[:held, :columns].float()
        )

    return energy_matmul.Matmul(call, made.result, made.left, made.right)


def test_cores_and_the_whole_matmul_take_turns_on_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy_cores, "alone", cores_on_the_cpu)
    monkeypatch.setattr(energy_cores, "whole", whole_on_the_cpu)
    windows = Windows(CPU, 0.02, 0.0)
    checks = energy_cores.measure(torch, windows, 512, (2, 4))
    assert all(check.passed for check in checks.values())
    assert list(windows.entries)[:3] == [
        "tensor cores alone, normal, 2 SMs",
        "whole matmul, normal, 2 SMs",
        "tensor cores alone, normal, 4 SMs",
    ]
    assert len(windows.entries) == 8 and in_order(windows.entries)
    one = windows.entries["whole matmul, uniform, 4 SMs"]
    assert (one["sms"], one["values"], one["flop"]) == (4, "uniform", 2 * 512**3 * one["repetitions"])


def test_cores_that_multiply_other_tiles_are_found() -> None:
    made = energy_products.Case("", "normal", 512).make(torch, CPU)
    assert not energy_cores.check_alone(made).passed  # poisoned
    cores_on_the_cpu(made, 2).call()
    assert energy_cores.check_alone(made).passed
    made.call()  # the whole product is not what the cores alone leave
    assert not energy_cores.check_alone(made).passed


def test_cores_need_a_gpu_and_whole_tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ToolError):
            energy_cores.main(["--json", str(tmp_path / "r.json")])
    with pytest.raises(argparse.ArgumentTypeError, match="300: rows come in whole tiles of 256"):
        energy_cores._whole_tiles("300")


def test_waves_begin_on_their_period(tmp_path: Path) -> None:
    record = ran(
        energy_sensor, tmp_path, "--size", "16", "--seconds", "0.2", "--step", "0.02", "--periods", "50"
    )
    windows = record["results"]["windows"]
    assert list(windows) == ["idle before", "step", "idle after", "wave of 50 ms"]
    assert in_order(windows)
    edges = windows["wave of 50 ms"]["edges_us"]
    assert len(edges) == 2 * windows["wave of 50 ms"]["repetitions"] == 8
    assert edges == sorted(edges)
    assert all(on >= 50_000 * k for k, on in enumerate(edges[::2]))


def test_the_model_by_size_pass_batch_and_part(tmp_path: Path) -> None:
    record = ran(
        *(energy_lm, tmp_path, *SHORT, "--part-seconds", "0.01", "--sizes", "tiny", "--size", "tiny"),
        *("--batch", "2", "--batches", "1,2", "--parts-batch", "2", "--context", "16"),
    )
    windows = record["results"]["windows"]
    assert in_order(windows)
    assert {one["study"] for one in windows.values()} == set(energy_lm.STUDIES)
    parts = {one["part"]: one["in_a_pass"] for one in windows.values() if "in_a_pass" in one}
    assert parts["norm"] == 2 * parts["softmax"] + 1
    assert windows["batch of 2"]["tokens"] == 2 * 16 * windows["batch of 2"]["repetitions"]


def test_parts_are_those_of_a_pass() -> None:
    """Run in turn, as often as a pass has them, the parts do the pass's operations."""
    from torch.utils.flop_counter import FlopCounterMode

    from labcode.analysis.lm import decoder
    from labcode.experiments.lm.transformer.steps import Setup, make_trainer

    trainer = make_trainer(Setup(decoder.SIZES["tiny"], 2, 16), CPU)
    with torch.no_grad():
        with FlopCounterMode(display=False) as whole:
            trainer.model(trainer.tokens)
        parts = energy_lm.parts_of(trainer).values()
        with FlopCounterMode(display=False) as alone:
            for count, call in parts:
                for _ in range(count):
                    call()
    assert alone.get_total_flops() == whole.get_total_flops() > 0


def test_phases_are_run_once_an_epoch(tmp_path: Path) -> None:
    record = ran(energy_ranges, tmp_path, "--size", "16", "--seconds", "0.01", "--epochs", "3")
    calls = record["results"]["calls"]
    assert set(calls) == {"matmul", "copy", "softmax", "norm"}
    assert all(count % 3 == 0 and count > 0 for count in calls.values())


@pytest.mark.parametrize(
    ("convert", "text", "message"),
    [
        (energy_lm.named_sizes, "small,huge", "huge: the sizes are small, medium"),
        (energy_lm.numbers, "1,x", "'x' is not a whole number"),
        (energy_sensor.periods, "100,1", "1 is not between 2 and 60000"),
    ],
)
def test_bad_lists_are_told(convert: Any, text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        convert(text)
