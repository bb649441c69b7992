"""How a kernel's warps reach global memory: a report of Nsight Compute in; a drawing of each instruction out.

For each load and store ncu counts the sectors of 32 bytes that its addresses fall into, and how many they
would fill. Divided by how often warps executed it, that is one warp's access: the drawing has a cell for
each sector, filled by as much of it as was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labcode.analysis.kernel.sass import decode
from labcode.reports.ncu.report import NcuReport

SECTOR = 32  # bytes
_OPCODES = {"LDG": "load", "STG": "store", "LDGSTS": "load"}
_FILLED = " ▁▂▃▄▅▆▇█"
_COUNTED = ("executed", "thread_executed_on", "sectors", "sectors_ideal")
_MOST = 6  # kinds of access


@dataclass(frozen=True)
class Access:
    """An instruction: its text, bytes per thread, and of a warp's access lanes, sectors, those if packed."""

    kernel: str
    sass: str
    kind: str
    bytes: int
    executed: int
    lanes: float
    sectors: float
    ideal: float


def accesses(report: NcuReport) -> list[Access]:
    """The loads and stores of all launches that ran, those that touch the most sectors first."""
    found = []
    for launch in report.list:
        table = report.source(launch.id)
        if not set(_COUNTED) <= set(table):
            continue
        decoded = decode(table["sass"])
        rows = zip(
            *(table[name].tolist() for name in ("sass", *_COUNTED)),
            *(decoded[name].tolist() for name in ("opcode", "bytes")),
            strict=True,
        )
        for sass, executed, threads, sectors, ideal, opcode, size in rows:
            if opcode in _OPCODES and executed and sectors:
                each = threads / executed, sectors / executed, ideal / executed
                text, kind = " ".join(str(sass).split()), _OPCODES[opcode]
                found.append(Access(launch.function, text, kind, int(size), int(executed), *each))
    return sorted(found, key=lambda one: -one.executed * one.sectors)


def drawn(found: Sequence[Access]) -> list[str]:
    """A line for each kind of access, and a cell for each sector that one warp's instruction touches."""
    together: dict[tuple[str, str, int, int, int, int], int] = {}
    for one in found:
        numbers = round(one.lanes), round(one.sectors), round(one.ideal)
        key = one.kernel, one.kind, one.bytes, *numbers
        together[key] = together.get(key, 0) + one.executed
    lines = []
    for (kernel, kind, size, lanes, sectors, ideal), count in list(together.items())[:_MOST]:
        asked = min(1.0, ideal / sectors) if sectors else 0.0
        cells = _FILLED[max(1, round(asked * (len(_FILLED) - 1)))] * max(1, sectors)
        what = f"{kernel}: {kind} of {size} bytes by {lanes} lanes"
        lines.append(f"{what}, {count:,} times: {sectors} sectors, {100 * asked:.0f} % asked for")
        lines.append(f"  |{'|'.join(cells)}|")
    if lines:
        lines.insert(0, "what a warp touches in one instruction, a cell for each sector of 32 bytes:")
    return lines
