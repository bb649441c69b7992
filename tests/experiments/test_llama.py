import json

import pytest

torch = pytest.importorskip("torch")
from labcode.experiments.lm.llama import (  # noqa: E402
    generate,
    model,
    program,
)
from labcode.experiments.scaling.llama_sharded import program as sharded  # noqa: E402
from labcode.experiments.shared import common  # noqa: E402


def refused(capsys, main, *words):
    with pytest.raises(SystemExit) as stopped:
        common_run(main, words)
    return stopped.value.code, capsys.readouterr().err.strip().splitlines()[-1]


def common_run(main, words):
    import sys
    from unittest.mock import patch

    with patch.object(sys, "argv", ["llama", *words]):
        common.run("llama", main)


def test_a_way_that_nobody_knows_is_one_line(capsys):
    code, line = refused(capsys, program.main, "--ways", "eager,faster")
    assert code == 2 and "faster: the ways are eager, sdpa" in line
    code, line = refused(capsys, sharded.main, "--ways", "eager")
    assert code == 2 and "eager: the ways are sdpa, compiled" in line


def test_a_way_of_the_other_variant_is_one_line(capsys):
    code, line = refused(capsys, program.main, "--variant", "train", "--ways", "static")
    assert (code, line) == (
        2,
        "llama: --ways static: the ways of train are eager, sdpa, fused, compiled, flex, at-once, kept",
    )


def test_without_transformers_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    code, line = refused(capsys, program.main, "--device", "cpu")
    assert code == 2 and line.endswith("install the package transformers")


def test_requests_of_a_batch_have_uneven_lengths():
    one = generate.lengths_of(generate.WAYS["graph"], 128, 64)
    many = generate.lengths_of(generate.WAYS["continuous"], 128, 9)
    assert one == [128]
    assert many == [8, 16, 24, 32, 48, 64, 96, 128, 8]


def test_ways_that_compute_something_else_are_told():
    ways = {"a": {"loss": 11.0, "gradient_norm": 1.0}, "b": {"loss": 11.1, "gradient_norm": 1.2}}
    checks = model.alike(ways)
    assert checks["loss_alike"].passed
    assert not checks["gradient_norm_alike"].passed
    assert not model.alike({})["loss_alike"].passed


def test_first_tokens_that_agree_are_counted():
    assert program.agreeing([[1, 2], [3]], [[1, 5], [4]]) == 0.5


def test_a_tiny_one_trains_and_writes(tmp_path):
    pytest.importorskip("transformers")
    record = tmp_path / "record.json"
    flags = ["--config", "tiny", "--device", "cpu", "--seconds", "0.01"]
    assert program.main(["--ways", "eager,sdpa", *flags, "--json", str(record)]) == 0
    found = json.loads(record.read_text())["results"]
    assert list(found["windows"]) == ["eager", "sdpa"] and found["left_out"] == {}
    asked = ["--variant", "generate", "--ways", "dynamic,static,padded,continuous", "--new-tokens", "8"]
    assert program.main([*asked, "--requests", "8", *flags, "--json", str(record)]) == 0
    ways = json.loads(record.read_text())["results"]["ways"]
    assert ways["dynamic"]["tokens"] == 8 and ways["padded"]["tokens"] == ways["continuous"]["tokens"]
    assert ways["static"]["agree"] == ways["continuous"]["agree"] == 1


def test_a_way_that_fails_is_left_out_with_its_reason(tmp_path, monkeypatch):
    assert program.reason(RuntimeError("no kernel\nlong story")) == "RuntimeError: no kernel"
    lab = program.Lab(program.command_line().parse_args(["--device", "cpu"]), torch.device("cpu"))

    def fails(name):
        raise RuntimeError("no kernel for it")

    lab.try_way("eager", fails)
    lab.try_way("sdpa", lambda name: {"loss": 1.0})
    assert lab.left_out == {"eager": "RuntimeError: no kernel for it"} and list(lab.ways) == ["sdpa"]
