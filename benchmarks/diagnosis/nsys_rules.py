"""What nsys' own expert rules say of the recorded cases, for comparison: whole exports in; a CSV out.

    python benchmarks/diagnosis/nsys_rules.py NSYS FOLDER...

reads ``CASE.PROGRAM.sqlite.xz`` as `run.py` leaves them, whole: what the sets keep of them lacks rows that
these rules ask for. Writes ``nsys-rules.csv`` beside this file: case, program, and for each rule of ``nsys
analyze`` how many rows it prints (it stops at 50; 0: it finds nothing). Exports of no set are left out.
"""

import csv
import io
import lzma
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
RULES = (
    *("cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync"),
    *("gpu_gaps", "gpu_time_util"),
)


def rows_of(nsys: str, packed: Path) -> list[int]:
    """How many rows each rule prints of an export."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "capture.sqlite"
        export.write_bytes(lzma.decompress(packed.read_bytes()))
        words = [nsys, "analyze", f"--rule={','.join(RULES)}", "--format=csv", "--output=-", str(export)]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^Processing \[.*\.\.\. *$", said, flags=re.MULTILINE)[1:]
    assert len(parts) == len(RULES), said[-500:]
    counts = []
    for part in parts:
        rows = [row for row in csv.reader(io.StringIO(part.strip())) if len(row) > 1]
        counts.append(max(len(rows) - 1, 0))
    return counts


def main(nsys: str, *folders: str) -> None:
    """Ask about all exports of which a set keeps something."""
    names = (path.name for path in HERE.parent.parent.glob("captures/*/diagnosis*/*.nsys.xz"))
    kept = {name.replace(".nsys.xz", ".sqlite.xz") for name in names}
    found = [path for folder in folders for path in Path(folder).glob("*.sqlite.xz")]
    packed = sorted(path for path in found if path.name.replace(".", "-", 1) in kept)
    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda path: rows_of(nsys, path), packed))
    with (HERE / "nsys-rules.csv").open("w", encoding="utf-8", newline="") as opened:
        table = csv.writer(opened, lineterminator="\n")
        table.writerow(["case", "program", *RULES])
        for path, rows in zip(packed, counts, strict=True):
            case, program = path.name.removesuffix(".sqlite.xz").split(".")
            table.writerow([case, program, *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
