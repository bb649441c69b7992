"""Runs every page's notebook as a reader would: in an environment that has Jupyter's kernel and nothing else.

    python -m tests.book.check_notebooks [nsys/streams …]

The book is built with an address that is a folder here, with the wheel and the captures. The first notebook
installs the wheel, and each runs in a kernel of its own and in an empty folder. Needs the package index.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labcode.book import notebooks
from labcode.book.build import BUILD_FOLDER, NOTEBOOKS, build

ROOT = Path(__file__).parents[2]
_LONGEST_S = 900  # for a notebook
_HOUSE = re.compile(r"^ *[`:]{3,} *\{|^:::|\{[a-z:-]+\}`|^\([\w-]+\)=", re.MULTILINE)
_RUN = """\
import json, sys
from jupyter_client.manager import start_new_kernel

cells = json.loads(sys.stdin.read())
manager, client = start_new_kernel(startup_timeout=300, stdout=sys.stderr, stderr=sys.stderr)
try:
    for number, cell in enumerate(cells):
        done = client.execute_interactive(cell, timeout=600, output_hook=lambda message: None)["content"]
        if done["status"] != "ok":
            sys.exit(f"code cell {number}: {done['ename']}: {done['evalue']}")
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
"""


def left_over(notebook: Path) -> str:
    """What of the book's own Markdown stands in a notebook's text; empty for none."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "markdown")
    found = _HOUSE.search(re.sub(r"(?ms)^ *```.*?^ *```$|(`+).+?\1", _of_roles, text))
    return f"shows {found[0].strip()!r} as it stands" if found else ""


def _of_roles(code: re.Match[str]) -> str:
    """Nothing of code, but the mark of a role's text."""
    return "" if code[1] is None else "`"


def code_cells(notebook: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def run(notebook: Path, python: Path, folder: Path) -> str:
    """Run a notebook's cells in a kernel; empty, or what failed."""
    folder.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LABCODE", "PYTHON"))}
    env |= {"HOME": str(folder.parent), "PATH": f"{python.parent}{os.pathsep}{env['PATH']}"}
    env |= {"VIRTUAL_ENV": str(python.parent.parent), "LANG": "C.UTF-8"}
    text = json.dumps(code_cells(notebook))
    command = [str(python), "-c", _RUN]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, input=text, text=True, capture_output=True, timeout=_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return f"longer than {_LONGEST_S} s"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def run_all(
    folder: Path, pages: Sequence[str], python: Path, scratch: Path
) -> Iterator[tuple[str, str, float]]:
    """Each page's notebook with what failed and its seconds; the first alone, since it installs the lab."""

    def one(page: str) -> tuple[str, str, float]:
        began = time.monotonic()
        notebook = folder / f"{page}.ipynb"
        failed = left_over(notebook) or run(notebook, python, scratch / page.replace("/", "-"))
        return page, failed, time.monotonic() - began

    yield one(pages[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(one, pages[1:])


def environment(folder: Path) -> Path:
    """The Python of a new environment with Jupyter's kernel."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pins = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *pins, "ipykernel"], check=True)
    return python


def release(folder: Path) -> str:
    """Lay out the wheel, the captures and what else pages read; the address."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in ("benchmarks", "captures", "cuda"):
        (folder / name).symlink_to(ROOT / name)
    return folder.as_uri()


def main(pages: Sequence[str]) -> int:
    """Build, install, run; the exit code says whether all passed."""
    with tempfile.TemporaryDirectory(prefix="notebooks-") as name:
        scratch = Path(name)
        (scratch / "files").mkdir()
        os.environ[notebooks.FILES] = release(scratch / "files")
        if code := build(None, "html"):
            return code
        made = ROOT / BUILD_FOLDER / "html" / NOTEBOOKS
        known = sorted(path.relative_to(made).with_suffix("").as_posix() for path in made.rglob("*.ipynb"))
        python = environment(scratch / "venv")
        failures = 0
        for page, failed, seconds in run_all(made, pages or known, python, scratch / "runs"):
            failures += bool(failed)
            print(f"{page}: {failed or 'runs'} ({seconds:.0f} s)", flush=True)
        print(f"{len(pages or known) - failures} of {len(pages or known)} notebooks run")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
