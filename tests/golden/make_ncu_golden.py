"""Golden reports of Nsight Compute, made on a GPU machine: one tar of them and of what ncu prints out.

    python3 tests/golden/make_ncu_golden.py ncu.tar.xz

The tar holds the scrubbed reports of ``ncu_kernels.cu`` (full, basic, sol, few), for each the pages
``raw``, ``details`` and ``source`` as ``ncu --import --csv`` prints them of the scrubbed report, without
the columns that name process and host; ``ptxas.txt`` and ``sass.txt``, what nvcc and cuobjdump say of the
program; and ``chip.*.txt``, the names of the metrics of other chips; ``occupancy_api.json``, what the
CUDA occupancy API answers over a grid of registers, block sizes and shared memory.
"""

import csv
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labcode.capture.archive import neutral
from labcode.capture.ncu_scrub import scrub_report
from labcode.tools import find_ncu, tool_version

HERE = Path(__file__).resolve().parent
REPORTS = {
    "full": ("--set", "full", "--import-source", "yes"),
    "basic": ("--set", "basic"),
    "sol": ("--section", "SpeedOfLight", "--section", "LaunchStats", "-k", "regex:copy"),
    "few": ("--metrics", "gpu__time_duration.sum,dram__bytes.sum,sm__inst_executed.sum"),
}
CHIPS = ("tu102", "ga100", "ga102", "ad102", "gb100", "gb202")
PRIVATE = ("Process ID", "Process Name", "Host Name")
REGISTERS = (16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 168, 200, 232, 255)
BLOCKS = (1, 31, 32, 33, 64, 96, 100, 128, 160, 192, 256, 288, 320, 384, 416, 512, 640, 768, 800, 992, 1024)
SHARED = (0, 1, 100, 1000, 1024, 3000, 8192, 12345, 16384, 30000, 33000, 49152, 60000, 75000, 98304, 101376)
SHARED += (114688, 130000, 166912, 200000, 232448)
HUNGRY = """extern "C" __global__ void hungry(const float* from, float* to, int rounds) {
    float x[200];
    #pragma unroll
    for (int k = 0; k < 200; k++) x[k] = from[threadIdx.x + k * 1024];
    for (int i = 0; i < rounds; i++)
    #pragma unroll
        for (int k = 0; k < 200; k++) x[k] = x[(k + 7) % 200] * 0.5f + x[k];
    float sum = 0;
    #pragma unroll
    for (int k = 0; k < 200; k++) sum += x[k] * k;
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""


def run(*words: object, cwd: Path) -> str:
    """Run a program and return its output; a failure ends this program with what it said."""
    result = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        sys.exit(
            f"{words[0]}: exit code {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
        )
    return result.stdout + (result.stderr if words[0] == "nvcc" else "")


def without_private(text: str) -> str:
    """A CSV page without the columns of process and host."""
    rows = list(csv.reader(io.StringIO(text)))
    drop = [place for place, name in enumerate(rows[0]) if name in PRIVATE]
    out = io.StringIO()
    kept = ([cell for place, cell in enumerate(row) if place not in drop] for row in rows)
    csv.writer(out, lineterminator="\n").writerows(kept)
    return out.getvalue()


def occupancy_grid() -> dict[str, object]:
    """What cudaOccupancyMaxActiveBlocksPerMultiprocessor says, with the kernel's own attributes."""
    import cupy

    rows = []
    for limit in REGISTERS:
        module = cupy.RawModule(code=HUNGRY, options=(f"--maxrregcount={limit}",), backend="nvrtc")
        kernel = module.get_function("hungry")
        kernel.max_dynamic_shared_size_bytes = 232448 - kernel.shared_size_bytes
        for block in BLOCKS:
            for shared in SHARED:
                blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    kernel.kernel.ptr, block, shared
                )
                rows.append([kernel.num_regs, block, kernel.shared_size_bytes + shared, blocks])
    device = cupy.cuda.Device()
    return {
        "compute_capability": device.compute_capability,
        "columns": ["registers", "threads", "shared_bytes", "blocks"],
        "rows": rows,
    }


def main(arguments: list[str]) -> int:
    """Make the golden reports; the exit code."""
    if len(arguments) != 1:
        print("usage: make_ncu_golden.py OUT.tar.xz", file=sys.stderr)
        return 2
    ncu = find_ncu()
    if ncu is None:
        sys.exit("ncu: not found; set LABCODE_NCU")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(arguments[0], "w:xz") as tar:
        work = Path(folder)
        build = ("nvcc", "-arch=sm_90a", "-lineinfo", "-Xptxas=-v", HERE / "ncu_kernels.cu")
        (work / "ptxas.txt").write_text(run(*build, "-o", work / "k", cwd=work))
        run(*build, "-cubin", "-o", work / "k.cubin", cwd=work)
        (work / "sass.txt").write_text(run("cuobjdump", "-sass", work / "k.cubin", cwd=work))
        for name, options in REPORTS.items():
            run(
                ncu,
                "--clock-control",
                "none",
                *options,
                "-f",
                "-o",
                work / f"raw-{name}",
                work / "k",
                cwd=work,
            )
            clean = work / f"{name}.ncu-rep"
            scrub_report(work / f"raw-{name}.ncu-rep", clean)
            for page in ("raw", "details", "source"):
                text = run(ncu, "--import", clean, "--page", page, "--csv", cwd=work)
                (work / f"{name}.{page}.csv").write_text(without_private(text) if page != "source" else text)
        for chip in CHIPS:
            lines = run(ncu, "--query-metrics", "--chips", chip, cwd=work).splitlines()
            names = sorted({line.split()[0] for line in lines if "__" in line})
            (work / f"chip.{chip}.txt").write_text("\n".join(names) + "\n")
        (work / "occupancy_api.json").write_text(json.dumps(occupancy_grid()))
        (work / "versions.json").write_text(json.dumps({"ncu": tool_version(ncu)}))
        for made in sorted(work.glob("*.*")):
            if not made.name.startswith("raw-") and made.suffix != ".cubin":
                tar.add(made, made.name, filter=neutral)
    print(f"{arguments[0]}: {Path(arguments[0]).stat().st_size / (1 << 20):.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
