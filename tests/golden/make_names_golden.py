"""What nsys prints of exports that are made for it: one tar of them and of CSV files out.

``names``: what it calls kernels after ranges (``:nvtx-name``); ``models``: the reports of which no capture of
the book has rows (unified memory, MPI, OpenMP, OpenACC, start/end ranges). Run where the newest nsys is; the
exports go along, so that they are always the very ones that nsys was asked about:

    python3 tests/golden/make_names_golden.py tests/golden/names.tar.xz
    python3 tests/golden/make_names_golden.py tests/golden/models.tar.xz
"""

import io
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labcode.capture.archive import neutral
from labcode.errors import LabError
from labcode.tools import require_nsys, run_tool, tool_version
from tests.support import exports as e
from tests.support.programming_models import REPORTS as PROGRAMMING_MODELS
from tests.support.programming_models import make_programming_models

REPORTS = (
    *("cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "cuda_gpu_sum", "cuda_api_gpu_sum", "cuda_gpu_trace"),
    *("cuda_kern_exec_sum", "cuda_kern_exec_trace"),
)
ARGUMENTS = ("nvtx-name", "nvtx-name:base", "nvtx-name:mangled")
STARTEND = ("nvtx_startend_sum",)
SEED = 1  # of the programming models
LIMIT_S = 60.0
_WIDTH = 1000  # of a case, in ns


def push(start: int, end: int | None, text: str | None, **options: Any) -> tuple[str, Any]:
    """A push/pop range of a case, its times relative to the case's."""
    return "push_pop", (start, end, text, options)


def ranged(start: int, end: int | None, text: str | None, **options: Any) -> tuple[str, Any]:
    """A start/end range of a case."""
    return "start_end", (start, end, text, options)


# name: ranges around (or beside) the launch, which lasts from 100 to 110 on thread 100
CASES: dict[str, list[tuple[str, Any]]] = {
    "bare": [],
    "one": [push(0, 300, "outer")],
    "nested": [push(0, 300, "outer"), push(50, 200, "inner")],
    "domain": [push(0, 300, "outer"), push(50, 200, "inner", domain=1)],
    "registered": [push(0, 300, "outer", registered=True)],
    "startend": [ranged(0, 300, "se")],
    "se_in_pp": [push(0, 300, "outer"), ranged(50, 200, "se")],
    "pp_in_se": [ranged(0, 300, "se"), push(50, 200, "inner")],
    "sticks_out": [push(0, 105, "outer")],
    "sticks_out2": [push(0, 300, "outer"), push(50, 105, "inner")],
    "touches": [push(100, 110, "exact")],
    "same_span": [push(0, 300, "first"), push(0, 300, "second")],
    "same_width": [ranged(0, 200, "early"), ranged(50, 250, "late")],
    "overlap": [ranged(0, 400, "long late"), ranged(0, 150, "short")],
    "tie_short_first": [ranged(0, 150, "short"), ranged(0, 400, "long")],
    "tie_three": [ranged(0, 150, "short"), ranged(0, 400, "long"), ranged(0, 120, "shorter")],
    "later_longer": [ranged(0, 400, "early"), ranged(50, 900, "late")],
    "later_longer2": [ranged(50, 900, "late"), ranged(0, 400, "early")],
    "ends_with": [push(0, 110, "ends"), push(0, 109, "before")],
    "other_thread": [push(0, 300, "outer", tid=200)],
    "no_text": [push(0, 300, "outer"), push(50, 200, None)],
    "empty": [push(0, 300, "outer"), push(50, 200, "")],
    "ended_elsewhere": [ranged(0, 300, "se", end_tid=300)],
    "open_end": [push(0, None, "open", tid=400)],
    "mark": [push(0, 300, 'a/b, "q"')],
    "two_calls": [push(0, 300, "outer"), push(95, 115, "inner")],
    **{f"two_calls_{n}": [push(0, 300, "outer"), push(95, 115, "inner")] for n in range(4)},
}
_THREADS = {"open_end": 400}
_CALLS = {  # of the runtime and of the driver, where a launch has both
    "two_calls": ((100, 110), (90, 120)),
    "two_calls_0": ((100, 110), (90, 120)),
    "two_calls_1": ((90, 120), (100, 110)),
    "two_calls_2": ((20, 30), (100, 110)),
    "two_calls_3": ((100, 110), (20, 30)),
}


def make(path: Path) -> Path:
    """Write the export: a kernel for each case, one that nothing launched, one of another's launch."""
    calls, kernels = [], []
    ranges = [e.domain(1, "dom")]
    for number, (name, around) in enumerate(CASES.items(), 1):
        at = number * _WIDTH
        tid = _THREADS.get(name, 100)
        runtime, *driver = _CALLS.get(name, ((100, 110),))
        calls.append(e.call(at + runtime[0], at + runtime[1], tid=tid, correlation=number))
        for begin, end in driver:
            calls.append(
                e.call(at + begin, at + end, "cuLaunchKernel", tid=tid, correlation=number, driver=True)
            )
        kernels.append(_kernel(at + 150, at + 190, name, number))
        for kind, (start, stop, text, options) in around:
            write = e.push_pop if kind == "push_pop" else e.start_end
            ranges.append(
                write(at + start, None if stop is None else at + stop, text, **{"tid": tid, **options})
            )
    at = (len(CASES) + 1) * _WIDTH
    kernels += [_kernel(at, at + 50, "nolaunch", 99999), _kernel(at, at + 50, "again", 2)]
    return e.make_export(path, kernels=kernels, api=calls, nvtx=ranges, gpus=[e.gpu()])


def _kernel(start: int, end: int, name: str, correlation: int) -> e.Row:
    return e.kernel(start, end, f"{name}<int>(int)", short=name, mangled=f"_Z{name}", correlation=correlation)


def pack(out: Path, asked: Mapping[Path, Sequence[str]]) -> None:
    """Ask nsys of each export for some reports; write the tar with the exports and what it printed.

    Where it prints nothing, what an older nsys printed stays in the tar, and ``version.txt`` says so.
    """
    nsys, older = require_nsys(), {}
    if out.is_file():
        with tarfile.open(out) as tar:
            older = {one.name: file.read() for one in tar if (file := tar.extractfile(one)) is not None}
    before = older.get("version.txt", b"").decode().partition("\n")[0]
    versions = [tool_version(nsys)]
    files: dict[str, bytes] = {}
    for export, names in asked.items():
        files[export.name] = export.read_bytes()
        for name in names:
            words = [nsys, "stats", "--force-export=false", "-q", "-f", "csv", "-r", name, export]
            csv = f"{name.replace(':', '-')}.csv"
            files[csv] = run_tool(words, LIMIT_S).stdout.encode()
            if not files[csv].strip() and older.get(csv):
                files[csv] = older[csv]
                versions.append(f"{name}: {before}")
    files["version.txt"] = "".join(f"{line}\n" for line in versions).encode()
    with tarfile.open(out, "w:xz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(neutral(member), io.BytesIO(data))


def main(arguments: list[str]) -> int:
    """Ask nsys and write the tar of names, or that of reports of which no capture has rows; the exit code."""
    if len(arguments) != 1 or Path(arguments[0]).name not in ("names.tar.xz", "models.tar.xz"):
        print("usage: make_names_golden.py FOLDER/names.tar.xz or FOLDER/models.tar.xz", file=sys.stderr)
        return 2
    out = Path(arguments[0])
    with tempfile.TemporaryDirectory() as work:
        names = make(Path(work) / "names.sqlite")
        if out.name == "names.tar.xz":
            pack(out, {names: [f"{report}:{argument}" for report in REPORTS for argument in ARGUMENTS]})
        else:
            models = make_programming_models(Path(work) / "models.sqlite", SEED)
            pack(out, {names: STARTEND, models: PROGRAMMING_MODELS})
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(f"make_names_golden: {error}", file=sys.stderr)
        sys.exit(2)
