"""What nsys itself reports of a set's captures: a set's folder in, one tar of CSV files out.

Run on the machine that made the captures, so that the newest nsys there answers:

    python3 tests/golden/make_golden.py captures/h200 golden.tar.xz

The tar (compressed when its name ends in .xz) holds ``EXPERIMENT/RUN.REPORT.csv`` for every export and every
report that has rows, and ``versions.json``: the nsys that answered; for each export its SHA-256, the reports
that had nothing to say, and hashes of the long ones, whose first lines are kept (golden.py).
"""

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labcode.capture.archive import neutral
from labcode.errors import LabError
from labcode.store import file_sha256, unpack_xz
from labcode.tools import require_nsys, run_tool, tool_version
from tests.golden.golden import abridge

REPORTS = (
    "cuda_api_gpu_sum",
    "cuda_api_sum",
    "cuda_api_trace",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace",
    "nvtx_kern_sum",
    "nvtx_pushpop_sum",
    "nvtx_pushpop_trace",
    "nvtx_startend_sum",
    "nvtx_sum",
    "osrt_sum",
)
LIMIT_S = 300.0

ENDS = (".nsys.xz", ".sqlite.xz", ".sqlite")


def stats(nsys: Path, export: Path, folder: Path) -> list[str]:
    """Write every report of an export to ``folder/REPORT.csv``; returns the names of those without rows."""
    folder.mkdir(parents=True)
    flags = [flag for report in REPORTS for flag in ("--report", report)]
    command = [
        nsys,
        "stats",
        "--quiet",
        "--force-export=false",
        "--format=csv",
        *flags,
        f"--output={folder}/r",
        export,
    ]
    result = run_tool(command, LIMIT_S)
    for made in folder.glob("r_*.csv"):
        if made.stat().st_size == 0:
            made.unlink()
    for made in folder.glob("r_*.csv"):
        made.rename(folder / made.name.removeprefix("r_"))
    missing = [report for report in REPORTS if not (folder / f"{report}.csv").is_file()]
    if len(missing) == len(REPORTS):
        raise LabError(f"{export}: nsys stats wrote nothing ({result.last_line()})")
    return missing


def main(arguments: list[str]) -> int:
    """Make the golden files of a set; the exit code."""
    if len(arguments) != 2:
        print("usage: make_golden.py SET_FOLDER OUT.tar[.xz]", file=sys.stderr)
        return 2
    captures, out = Path(arguments[0]), Path(arguments[1])
    nsys = require_nsys()
    exports = sorted(path for end in ENDS for path in captures.glob(f"*/*{end}"))
    if not exports:
        raise LabError(f"{captures}: holds no exports")
    mode: Literal["w", "w:xz"] = "w:xz" if out.suffix == ".xz" else "w"
    versions: dict[str, object] = {"nsys": tool_version(nsys)}
    with tempfile.TemporaryDirectory() as work, tarfile.open(out, mode) as tar:
        for export in exports:
            name = next(export.name.removesuffix(end) for end in ENDS if export.name.endswith(end))
            copy = Path(work) / export.parent.name / f"{name}.sqlite"
            copy.parent.mkdir(exist_ok=True)
            if export.suffix == ".xz":
                unpack_xz(export, copy)
            else:
                copy.write_bytes(export.read_bytes())
            sha256 = file_sha256(copy)
            folder = copy.with_suffix("")
            missing = stats(nsys, copy, folder)
            long = {}
            for made in sorted(folder.glob("*.csv")):
                kept, hashes = abridge(made.read_text(encoding="utf-8"))
                if hashes is not None:
                    made.write_text(kept, encoding="utf-8")
                    long[made.stem] = hashes
                tar.add(made, f"{export.parent.name}/{name}.{made.stem}.csv", filter=neutral)
            versions[f"{export.parent.name}/{name}"] = {
                "sha256": sha256,
                "without_rows": missing,
                "long": long,
            }
            print(f"{export.parent.name}/{name}: {len(REPORTS) - len(missing)} reports", flush=True)
            copy.unlink()
        about = Path(work) / "versions.json"
        about.write_text(json.dumps(versions, indent=1) + "\n")
        tar.add(about, "versions.json", filter=neutral)
    print(f"{out}: {out.stat().st_size / (1 << 20):.2f} MiB")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(f"make_golden: {error}", file=sys.stderr)
        sys.exit(2)
