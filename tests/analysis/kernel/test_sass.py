"""Machine code from a report, from cuobjdump and from nvcc's report: the same kernels, the same counts."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from labcode.analysis.kernel.sass import (
    PTXAS_COLUMNS,
    decode,
    mix,
    parse_cuobjdump,
    parse_ptxas,
    pipe_of,
    sass_of,
    spills,
    vector_share,
    view,
    widths,
)
from labcode.errors import InputError, ToolError
from tests.support import ncu
from tests.support.ncu import launch
from tests.support.programs import program


def test_decoding() -> None:
    lines = pd.Series(
        [
            "@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]",
            "FFMA R1, R2, R3, R4",
            "STS.U8 [R1], R2",
            "ULDC UR1",
            "?",
        ]
    )
    table = decode(lines)
    assert table["opcode"].tolist() == ["LDG", "FFMA", "STS", "ULDC", ""]
    assert table["predicate"].tolist() == ["!P0", "", "", "", ""]
    assert table["bytes"].tolist() == [16, 0, 1, 0, 0]
    assert table["pipe"].tolist() == ["global memory", "FP32", "shared memory", "uniform", "other"]
    assert table["flags"].iloc[0] == "E.128.CONSTANT"


def test_no_opcode_of_the_golden_kernels_is_unknown() -> None:
    report = ncu.opened("full")
    assert len(report.list) == 14
    for one in report.list:
        table = view(report, one.id)
        unknown = table[table["pipe"] == "other"]
        assert unknown.empty, unknown["sass"].tolist()


def test_executed_opcodes_equal_ncus() -> None:
    report = ncu.opened("full")
    for one in report.list:
        keys, values = one.instances["sass__inst_executed_per_opcode"]
        assert len(keys)
        table = view(report, one.id)
        ours = table.groupby("opcode")["executed"].sum()
        for opcode, count in zip(keys, values, strict=True):
            assert ours[str(opcode)] == count, (one.function, opcode)


def test_mix() -> None:
    table = mix(view(ncu.opened("full"), launch("doubles").id))
    assert table.iloc[0]["pipe"] == "FP64" and table.iloc[0]["share"] > 0.5
    assert table["share"].sum() == pytest.approx(1)
    assert "none" not in set(table["pipe"])  # padding is not work
    assert mix(view(ncu.opened("full"), launch("tensor").id)).iloc[0]["pipe"] == "tensor"


def test_widths_and_vectors() -> None:
    report = ncu.opened("full")
    assert vector_share(view(report, launch("copy_vector").id)) == 1.0
    assert vector_share(view(report, launch("copy_scalar").id)) == 0.0
    table = widths(view(report, launch("copy_vector").id)).set_index(["space", "access"])
    assert table.loc[("global", "load"), "bytes"] == 16 and table.loc[("global", "load"), "share"] == 1.0
    assert pd.isna(vector_share(view(report, launch("fma_chain").id).query("pipe == 'FP32'")))


def test_spills() -> None:
    table = spills(ncu.opened("full")).set_index("kernel")
    assert table.loc["spills", "executed"] > 0 and table.loc["spills", "share"] > 0.2
    assert (table.drop(index="spills")["executed"] == 0).all()
    one = launch("spills")
    counted = one.number("local_loads") + one.number("local_stores")
    assert table.loc["spills", "executed"] == counted


def test_cuobjdump_shows_the_code_of_the_report() -> None:
    functions = parse_cuobjdump(ncu.path("sass.txt").read_text())
    report = ncu.opened("full")
    assert {one.mangled for one in report.list} <= set(functions)
    for one in report.list:
        mine = view(report, one.id)
        other = functions[one.mangled]
        assert mine["opcode"].tolist()[: len(other)] == other["opcode"].tolist(), one.function
        assert other["offset"].diff().dropna().eq(16).all()
    assert vector_share(functions["_Z11copy_vectorPK6float4PS_m"]) == 1.0
    assert mix(functions["_Z7doublesPdi"]).iloc[0]["pipe"] == "FP64"


def test_ptxas() -> None:
    table = parse_ptxas(ncu.path("ptxas.txt").read_text())
    assert list(table.columns) == list(PTXAS_COLUMNS)
    rows = table.set_index("function")
    assert len(rows) == 14 and rows["arch"].eq("sm_90a").all()
    assert rows.loc["_Z6spillsPKfPfi", "spill_store_bytes"] > 0
    assert rows.loc["_Z6spillsPKfPfi", "registers"] == 32
    assert rows.loc["_Z9conflictsPKfPfi", "shared_bytes"] == 32 << 10
    assert rows.loc["_Z9conflictsPKfPfi", "barriers"] == 1
    for one in ncu.opened("full").list:  # ncu counts what is given out, in whole units
        assert rows.loc[one.mangled, "registers"] <= one.whole("launch__registers_per_thread")
    assert parse_ptxas("nothing").empty


@pytest.mark.skipif(shutil.which("cuobjdump") is None, reason="needs cuobjdump of a CUDA toolkit")
def test_a_file_without_code(tmp_path: Path) -> None:
    file = tmp_path / "x.cubin"
    file.write_text("nothing")
    with pytest.raises(InputError, match="holds no SASS"):
        sass_of(file)


def test_missing_file_and_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such file"):
        sass_of(tmp_path / "none.cubin")
    file = tmp_path / "x.cubin"
    file.write_text("nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="cuobjdump: not found; it comes with the CUDA toolkit"):
        sass_of(file)


def test_pipes() -> None:
    assert pipe_of("HGMMA") == "tensor" and pipe_of("UIADD3") == "uniform" and pipe_of("XYZ") == "other"


def test_disassembly_by_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "cuobjdump", f"cat {ncu.path('sass.txt')}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{'/usr/bin:/bin'}")
    file = tmp_path / "x.cubin"
    file.write_bytes(b"\x7fELF")
    assert "_Z7doublesPdi" in sass_of(file)
