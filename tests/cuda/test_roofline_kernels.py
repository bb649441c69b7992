"""Roofline kernels: no work is removed from the loops, records can be read; roofs on a GPU."""

import json
import re
import shutil
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.experiments.compute.roofline_kernels.cuda import program as wrapper
from labcode.kernels.topics import roofline_kernels as topic
from tests.cuda import ncu_programs
from tests.cuda.conftest import ARCHITECTURES, CUDA, NEWEST, Assemble, Built

PROGRAM = "roofline_kernels"
TINY = ["--mebibytes", "1", "--work", "0.01", "--repetitions", "2", "--warmup", "1"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(assembled: Assemble, architecture: str) -> None:
    found = ncu_programs.resources(assembled(PROGRAM, architecture).report)
    assert {name for name, kernel in found.items() if kernel.spilled_bytes} == set()
    if architecture == "90a":
        assert found["wgmma_bf16"].registers > 128  # the accumulators are in registers


@pytest.fixture(scope="module")
def sass(assembled: Assemble) -> str:
    tool = shutil.which("cuobjdump")
    if tool is None:
        pytest.skip("no cuobjdump here")
    found = assembled(PROGRAM, NEWEST)
    kernels = re.findall(r"Compiling entry function '(\w+)'", found.report)
    return ncu_programs.run([tool, "-sass", "-fun", ",".join(kernels), found.code]).stdout


def loops(sass: str, kernel: str) -> list[list[str]]:
    """The instructions of each loop of a kernel: from a backward branch's target to the branch."""
    text = next(part for part in sass.split("Function : ")[1:] if re.match(rf"\S*{kernel}", part))
    code = [
        (int(place, 16), name, rest)
        for place, name, rest in re.findall(
            r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\d+ )?\s*([A-Z0-9]+)([^;]*);", text
        )
    ]
    found = []
    for place, name, rest in code:
        target = re.search(r"0x([0-9a-f]+)", rest)
        if name == "BRA" and target is not None and int(target[1], 16) < place:
            found.append([n for p, n, _ in code if int(target[1], 16) <= p <= place])
    return found


@pytest.mark.parametrize(
    ("kernel", "instruction", "count", "others"),
    [
        ("8fma_rateINS0_4Fp32", "FFMA", 256, 4),  # 32 rounds of 8 chains
        ("8fma_rateINS0_4Fp64", "DFMA", 256, 4),
        ("8fma_rateINS0_4Fp16", "HFMA2", 256, 4),
        ("8mma_bf16", "HMMA", 16, 6),  # 2 rounds of 8 tiles
        ("10wgmma_bf16", "HGMMA", 4, 20),
    ],
)
def test_loops_hold_the_operations_that_are_counted(
    sass: str, kernel: str, instruction: str, count: int, others: int
) -> None:
    longest = max(loops(sass, kernel=f"roofline_kernels{kernel}"), key=lambda loop: loop.count(instruction))
    assert longest.count(instruction) == count
    assert len(longest) - count <= others


def test_half_precision_uses_both_of_its_pipes(sass: str) -> None:
    kernel = next(
        part for part in sass.split("Function : ")[1:] if "fma_rateINS0_4Fp16" in part.split("\n")[0]
    )
    one, other = len(re.findall(r"HFMA2 R", kernel)), len(re.findall(r"HFMA2\.MMA R", kernel))
    assert min(one, other) > 0.4 * (one + other)


def test_half_precision_needs_no_header() -> None:
    assert "#include" not in (CUDA / PROGRAM / f"{PROGRAM}.cuh").read_text()  # NVRTC finds none of them


def test_wrapper_knows_the_flags(built: Built) -> None:
    ncu_programs.check_wrapper(built(PROGRAM), wrapper)


def test_bad_use_is_one_line(built: Built, tmp_path: Path) -> None:
    ncu_programs.check_bad_use(built(PROGRAM), tmp_path)


def test_ceilings_are_read_from_a_record() -> None:
    entry = {
        "name": "dram_copy",
        "kind": "bandwidth",
        "level": "dram",
        "unit": "GB/s",
        "value": 4200.0,
        "spread": [4190.0, 4210.0],
        "published": 4800.0,
        "source": "datasheet",
        "sm_clock_mhz": 1980.0,
        "at_measured_clock": None,
    }
    record = {"program": PROGRAM, "results": {"ceilings": {"dram_copy": entry}}}
    (ceiling,) = topic.ceilings(record)
    assert (ceiling.name, ceiling.value, ceiling.spread) == ("dram_copy", 4200.0, (4190.0, 4210.0))


def test_record_without_ceilings_says_how_to_make_one() -> None:
    with pytest.raises(LabError, match="--variant ceilings --json FILE"):
        topic.ceilings({"program": PROGRAM, "results": {"points": {}}})


@pytest.mark.gpu
def test_results_match_the_host(tmp_path: Path) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    done = ncu_programs.run([build(PROGRAM), *TINY, "--json", path])
    assert done.returncode == 0, done.stderr
    record = json.loads(path.read_text())
    assert all(check["passed"] for check in record["checks"].values())
    assert {"fp64", "fp32", "fp16"} <= {point["precision"] for point in record["results"]["points"].values()}


@pytest.mark.gpu
def test_no_roof_is_above_what_the_clock_allows(tmp_path: Path) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    done = ncu_programs.run([build(PROGRAM), "--variant", "ceilings", "--json", path])
    assert done.returncode == 0, done.stderr
    roofs = {roof.name: roof for roof in topic.ceilings(json.loads(path.read_text()))}
    for roof in roofs.values():
        if roof.at_measured_clock is not None:
            assert roof.value <= 1.02 * roof.at_measured_clock, roof.name
        if roof.published is not None and roof.kind == "bandwidth":
            assert roof.value <= roof.published, roof.name
    assert roofs["fma_fp32"].value > 0.9 * (roofs["fma_fp32"].at_measured_clock or 0)
