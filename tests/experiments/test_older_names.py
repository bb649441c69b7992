"""The attention programs by the names and flags of older guides."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labcode.experiments.compute.attention import program as attention
from labcode.experiments.compute.attention.older.flags import FLAGS, translated


@pytest.mark.parametrize(
    ("command", "typed", "name", "value"),
    [
        ("benchmark", "--seq-lengths 128,256,512,1024,2048", "lengths", (128, 256, 512, 1024, 2048)),
        ("benchmark", "--seq-len 512", "lengths", (512,)),
        ("benchmark", "--output=benchmark_results.json", "json", Path("benchmark_results.json")),
        ("benchmark", "--lengths 512", "lengths", (512,)),
        ("profile", "--seq-len 512", "length", 512),
        ("profile", "--impl flash", "implementation", "flash"),
        ("profile", "--impl=flash", "implementation", "flash"),
        ("profile", "--output trace.json", "trace", Path("trace.json")),
        ("visualize", "--input a=b.json --output-dir plots", "input", Path("a=b.json")),
    ],
)
def test_older_flags_mean_todays(command: str, typed: str, name: str, value: object) -> None:
    given = attention.command_line().parse_args(translated(command, typed.split()))
    assert (given.command, getattr(given, name)) == (command, value)


def test_every_flag_that_one_becomes_is_there() -> None:
    for command, flags in FLAGS.items():
        for flag in flags.values():
            value = {"--implementation": "flash"}.get(flag, "64")
            attention.command_line().parse_args([command, flag, value])


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        ("benchmark_attention", ["--seq-lengths", "0"], "argument --lengths: 0 is not between 1 and 131072"),
        ("profile_kernels", ["--impl", "fast"], "argument --implementation: invalid choice: 'fast'"),
        ("visualize_results", ["--input", "no.json", "--output-dir", "x"], "no.json: No such file"),
    ],
)
def test_the_programs_run_by_their_names(
    tmp_path: Path, program: str, words: list[str], message: str
) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", f"labcode.experiments.compute.attention.older.{program}", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message.lower() in done.stderr.lower()


def test_a_record_is_drawn(tmp_path: Path) -> None:
    row = {"implementation": "flash", "kind": "library", "dtype": "bfloat16", "mask": "none", "dim": 64}
    rows = [row | {"length": n, "time_us": 1.0, "tflop_per_s": 1.0, "error": 1e-3} for n in (64, 128)]
    (tmp_path / "r.json").write_text(json.dumps({"results": {"rows": rows}}))
    typed = ["--input", str(tmp_path / "r.json"), "--output-dir", str(tmp_path / "plots")]
    assert attention.main(translated("visualize", typed)) == 0
    assert len(list((tmp_path / "plots").glob("*.svg"))) == 2
