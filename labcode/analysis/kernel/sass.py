"""Machine code: a report, a disassembly or nvcc's report in; instruction mix, widths, registers, spills out.

Three sources, none of which needs a GPU to be read: the SASS that an ``.ncu-rep`` carries, with how often
each instruction ran; what ``cuobjdump -sass`` prints of a ``.cubin``; and what nvcc prints with ``-Xptxas
-v``.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.errors import InputError, ToolError
from labcode.inputs import plain_file
from labcode.reports.ncu.report import NcuReport

# pipe or unit → opcodes that it executes (CUDA Binary Utilities, instruction set reference)
_PIPES: Mapping[str, str] = {
    "FP32": "FADD FFMA FMUL FCHK FSEL FSET FSETP FMNMX FSWZADD FADD2 FFMA2 FMUL2",
    "FP64": "DADD DFMA DMUL DSETP",
    "FP16": "HADD2 HFMA2 HMUL2 HSET2 HSETP2 HMNMX2 HADD2_32 HFMA2_32 HMUL2_32",
    "tensor": "HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA",
    "integer multiply": "IMAD IMUL IDP IDP4A XMAD",
    "integer and logic": "IADD IADD3 IABS IMNMX ISETP ICMP LEA LOP LOP3 SHF SHL SHR BMSK SEL PRMT PLOP3 "
    "VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 SGXT LOP32I IADD32I VHMNMX P2R "
    "R2P PSETP IADD64 ISCADD BREV",
    "special functions": "MUFU POPC FLO",
    "conversion": "F2F F2I I2F I2I I2IP I2FP F2IP FRND F2FP F2IU",
    "move": "MOV MOV32I MOVM SHFL CS2R S2R S2UR R2UR B2R R2B MATCH VOTE",
    "uniform": "",  # opcodes that begin with U
    "global memory": "LDG STG LDGSTS LD ST LDGDEPBAR DEPBAR CCTL LDGMC",
    "shared memory": "LDS STS LDSM STSM LDTRAM STAS REDAS",
    "local memory": "LDL STL",
    "constant memory": "LDC LDCU",
    "bulk copy": "UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF UTMACMDFLUSH",
    "atomics": "ATOM ATOMG ATOMS RED REDG REDUX",
    "texture and surface": "TEX TLD TLD4 TXQ TXD TMML SULD SUST SUATOM SURED",
    "synchronization": "BAR SYNCS MEMBAR ERRBAR WARPSYNC NANOSLEEP FENCE ACQBULK UCGABAR",
    "control": "BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV BPT KILL YIELD WARPGROUP "
    "WARPGROUPDEPBAR ELECT ENDCOLLECTIVE PREEXIT CGAERRBAR RPCMOV",
    "none": "NOP",
}
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}
_INSTRUCTION = re.compile(
    r"(?:@(?P<predicate>!?U?P\w+)\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<flags>(?:\.[\w.]+)?)"
)
_WIDTHS = {"64": 8, "128": 16, "256": 32, "U8": 1, "S8": 1, "8": 1, "U16": 2, "S16": 2, "16": 2}
_VECTOR_FROM = 8  # bytes of a thread


def pipe_of(opcode: str) -> str:
    """The pipe or unit that executes an opcode; 'other' for one the table lacks."""
    known = _PIPE_OF.get(opcode)
    if known is not None:
        return known
    return "uniform" if opcode.startswith("U") else "other"


def decode(sass: pd.Series) -> pd.DataFrame:
    """Instructions as text → predicate, opcode, flags, pipe, bytes (of a thread's memory access, else 0)."""
    rows = []
    for text in sass:
        found = _INSTRUCTION.match(str(text).strip())
        if found is None:
            rows.append(("", "", "", "other", 0))
            continue
        opcode, flags = found["opcode"], found["flags"].lstrip(".")
        pipe = pipe_of(opcode)
        rows.append((found["predicate"] or "", opcode, flags, pipe, _width(opcode, flags)))
    return pd.DataFrame(
        rows, columns=["predicate", "opcode", "flags", "pipe", "bytes"], index=sass.index
    ).astype({"predicate": "str", "opcode": "str", "flags": "str", "pipe": "str", "bytes": "int64"})


def _width(opcode: str, flags: str) -> int:
    if opcode not in ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDGSTS"):
        return 0
    sizes = [_WIDTHS[part] for part in flags.split(".") if part in _WIDTHS]
    return sizes[-1] if sizes else 4


def view(report: NcuReport, launch: int) -> pd.DataFrame:
    """A launch's instructions: offset, sass, opcode, pipe, bytes, file, line, executed, samples."""
    table = report.source(launch)
    decoded = decode(table["sass"])
    for name in ("executed", "samples"):
        if name not in table:
            table[name] = 0
    return pd.concat(
        [table[["offset", "sass", "ptx", "file", "line", "executed", "samples"]], decoded], axis=1
    )


def mix(table: pd.DataFrame) -> pd.DataFrame:
    """Instructions by pipe: static (in the code, padding left out), executed (by warps; 0 where the
    source has no counts), and the share of each, the most executed first.
    """
    real = table[table["opcode"] != "NOP"]
    grouped = (
        real.groupby("pipe").agg(static=("opcode", "size"), executed=("executed", "sum"))
        if "executed" in real
        else real.groupby("pipe").agg(static=("opcode", "size")).assign(executed=0)
    )
    by = "executed" if grouped["executed"].sum() else "static"
    grouped = grouped.assign(share=grouped[by] / max(grouped[by].sum(), 1))
    return grouped.sort_values(["share", "static"], ascending=False).reset_index()


def widths(table: pd.DataFrame) -> pd.DataFrame:
    """Global, shared and local accesses by width: space, access, bytes per thread, static, executed, share
    of the space's accesses of this kind.
    """
    access = table[table["bytes"] > 0].copy()
    if "executed" not in access:
        access["executed"] = 0
    spaces = {"LDG": ("global", "load"), "STG": ("global", "store"), "LDS": ("shared", "load")}
    spaces |= {"STS": ("shared", "store"), "LDL": ("local", "load"), "STL": ("local", "store")}
    spaces |= {"LDGSTS": ("global", "copy to shared"), "LD": ("generic", "load"), "ST": ("generic", "store")}
    access["space"] = access["opcode"].map(lambda opcode: spaces[opcode][0])
    access["access"] = access["opcode"].map(lambda opcode: spaces[opcode][1])
    keys = ["space", "access", "bytes"]
    grouped = access.groupby(keys).agg(static=("opcode", "size"), executed=("executed", "sum")).reset_index()
    by = "executed" if grouped["executed"].sum() else "static"
    whole = grouped.groupby(["space", "access"])[by].transform("sum")
    return grouped.assign(share=grouped[by] / whole.where(whole > 0, 1))


def vector_share(table: pd.DataFrame) -> float:
    """The share of global loads and stores that move 8 bytes or more per thread; nan where there are none."""
    found = widths(table)
    found = found[found["space"] == "global"]
    by = "executed" if found["executed"].sum() else "static"
    whole = found[by].sum()
    return float(found.loc[found["bytes"] >= _VECTOR_FROM, by].sum() / whole) if whole else float("nan")


_LINE = re.compile(r"^\s+/\*(?P<offset>[0-9a-f]{4,})\*/\s+(?P<sass>[^;]+?)\s*;")
_FUNCTION = re.compile(r"^\s*Function\s*:\s*(?P<name>\S+)")


def parse_cuobjdump(text: str) -> dict[str, pd.DataFrame]:
    """What ``cuobjdump -sass`` printed → for each function its instructions: offset, sass, and `decode`'s."""
    functions: dict[str, list[tuple[int, str]]] = {}
    current: list[tuple[int, str]] | None = None
    for line in text.splitlines():
        name = _FUNCTION.match(line)
        if name is not None:
            current = functions.setdefault(name["name"], [])
            continue
        found = _LINE.match(line)
        if found is not None and current is not None:
            current.append((int(found["offset"], 16), " ".join(found["sass"].split())))
    tables = {}
    for name_, rows in functions.items():
        table = pd.DataFrame(rows, columns=["offset", "sass"]).astype({"offset": "int64", "sass": "str"})
        tables[name_] = pd.concat([table, decode(table["sass"])], axis=1)
    return tables


def sass_of(path: Path) -> dict[str, pd.DataFrame]:
    """The functions of a ``.cubin``, object or program, disassembled by cuobjdump; no GPU is needed.

    Raises `InputError` for a file that holds no machine code, `ToolError` when cuobjdump is missing.
    """
    import shutil

    from labcode.tools import run_tool

    plain_file(path)
    tool = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    if tool is None:
        raise ToolError("cuobjdump: not found; it comes with the CUDA toolkit: put its bin folder on PATH")
    result = run_tool([tool, "-sass", path], 120.0, what=f"cuobjdump {path}")
    functions = parse_cuobjdump(result.stdout) if result.returncode == 0 else {}
    if not functions:
        raise InputError(
            f"{path}: holds no SASS ({result.last_line()}); make it with `nvcc -cubin -arch=sm_90a`"
        )
    return functions


PTXAS_COLUMNS = {
    **dict.fromkeys(("function", "arch"), "str"),
    **dict.fromkeys(("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes"), "int64"),
    **dict.fromkeys(("shared_bytes", "barriers"), "int64"),
}
_COMPILING = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def parse_ptxas(text: str) -> pd.DataFrame:
    """What nvcc printed with ``-Xptxas -v``, a row for each kernel, with the columns `PTXAS_COLUMNS`."""
    rows: list[list[object]] = []
    for line in text.splitlines():
        entry = _COMPILING.search(line)
        if entry is not None:
            rows.append([entry["name"], entry["arch"], 0, 0, 0, 0, 0, 0])
            continue
        stack = _STACK.search(line)
        if stack is not None and rows:
            rows[-1][3:6] = map(int, stack.groups())
        used = re.search(r"Used (\d+) registers", line)
        if used is not None and rows:
            rows[-1][2] = int(used[1])
            for place, pattern in ((6, r"(\d+) bytes smem"), (7, r"used (\d+) barriers")):
                found = re.search(pattern, line)
                rows[-1][place] = int(found[1]) if found else 0
    return pd.DataFrame(rows, columns=list(PTXAS_COLUMNS)).astype(PTXAS_COLUMNS)


def spills(report: NcuReport) -> pd.DataFrame:
    """Local memory of every launch: launch, kernel, local loads and stores in the code and executed, and
    their share of all executed instructions (nan where the report has no counts).
    """
    rows = []
    for one in report.list:
        table = view(report, one.id)
        local = table[table["pipe"] == "local memory"]
        total = table["executed"].sum()
        share = local["executed"].sum() / total if total else np.nan
        rows.append((one.id, one.function, len(local), int(local["executed"].sum()), share))
    return pd.DataFrame(rows, columns=["launch", "kernel", "static", "executed", "share"]).astype(
        {"launch": "int64", "kernel": "str", "static": "int64", "executed": "int64", "share": "float64"}
    )
