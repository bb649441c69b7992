"""Changed pages, executed while Sphinx still starts: pages and what was executed last in, their outputs out.

Sphinx asks for the cells of a page to be executed when it reads that page. Which pages have other cells than
last time can be seen long before (`begun`): processes of their own execute these meanwhile, and hand over
the outputs, or the error of the cell that failed, where the page is read (`taking`). What is asked for
there is compared with what was executed; where it differs, it is executed as ever.
"""

import contextlib
import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

TIMEOUT_S = 120  # of a cell
_STARTUP_S = 300  # of a kernel, where much else is to be done
MOST = 3  # pages; of more, each would only wait for the others
_KERNEL = "python3"
_FENCE = re.compile(r"(`{3,}|~{3,}|:{3,})(.*)")
_WAIT_S = 2.0
_LONGEST_SOCKET = 100  # bytes of a path; systems take 103 and more
_KERNELS_SILENCE_S, _SILENCE_S = 0.2, 0.02


class Run(NamedTuple):
    """A page that is being executed: its cells, and the process, which prints what came of them."""

    cells: list[str]
    process: subprocess.Popen[bytes]


def settings(root: Path) -> dict[str, str]:
    """The environment of kernels: no start-up files of the user reach the pages."""
    return {
        "IPYTHONDIR": str(root / "_build" / ".ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def options(folder: Path) -> dict[str, Any]:
    """How cells are executed: by a kernel that is reached by sockets in a folder of its own, and waiting for
    outputs that are late, which would be left out.

    Ports, as Jupyter takes them, are free when they are chosen; another kernel that starts may have one of
    them before the kernel listens there, which then ends.
    """
    from traitlets.config import Config

    manager = {"transport": "ipc", "connection_file": str(folder / "kernel.json")}
    short = len(os.fsencode(folder / "kernel-ipc-1")) <= _LONGEST_SOCKET
    return {
        "config": Config({"KernelManager": manager} if short else {}),
        "timeout": TIMEOUT_S,
        "startup_timeout": _STARTUP_S,
        "iopub_timeout": TIMEOUT_S,
        "raise_on_iopub_timeout": True,
        "record_timing": False,
    }


def code_cells(page: str) -> list[str]:
    """The sources of a page's code cells, as MyST-NB reads them."""
    cells: list[str] = []
    fence, info, body = "", "", list[str]()
    for line in page.splitlines():
        if not fence:
            if found := _FENCE.match(line):
                fence, info, body = found[1], found[2], []
        elif line.startswith(fence) and not line.strip().strip(fence[0]):
            if info.startswith("{code-cell}"):
                cells.append("\n".join(_without_options(body)))
            fence = ""
        else:
            body.append(line)
    return cells


def _without_options(lines: list[str]) -> list[str]:
    """The lines of a cell without its options: a block between dashes, or lines that begin with a colon."""
    if lines and lines[0].startswith("---"):
        dashes = (number for number, line in enumerate(lines) if number and line.startswith("---"))
        rest = lines[next(dashes, len(lines)) + 1 :]
    else:
        rest = list(itertools.dropwhile(lambda line: line.lstrip().startswith(":"), lines))
    if len(rest) < len(lines):  # MyST joins what is left, and splits it again
        rest = "\n".join(rest).splitlines()
    return rest[1:] if rest and not rest[0].strip() else rest


def changed(pages: Path, executed: Path) -> Iterator[tuple[Path, list[str]]]:
    """The pages below a folder whose cells are not those in the notebooks that the last build left, and
    these cells.
    """
    for page in sorted(pages.rglob("*.md")) if executed.is_dir() else ():
        notebook = (executed / page.relative_to(pages)).with_suffix(".ipynb")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if not notebook.exists() or notebook.stat().st_mtime < page.stat().st_mtime:
                cells = code_cells(page.read_text(encoding="utf-8"))
                if cells and (not notebook.exists() or cells != _sources(json.loads(notebook.read_bytes()))):
                    yield page, cells


def _sources(notebook: Mapping[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@contextlib.contextmanager
def begun(root: Path, pages: Path, executed: Path) -> Iterator[dict[Path, Run]]:
    """Inside of the block the few pages that were changed are executed; what still runs then is ended."""
    found = dict(changed(pages, executed))
    runs: dict[Path, Run] = {}
    if not 0 < len(found) <= MOST:
        yield runs
        return
    from labcode.book import display  # the processes that execute do without

    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | settings(root) | {"JUPYTER_RUNTIME_DIR": folder}
        if len(found) < (os.cpu_count() or 1):
            environment[display.CORE_TO_SPARE] = "1"
        try:
            for page, cells in found.items():
                process = subprocess.Popen(
                    [sys.executable, "-P", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for this process, which ends them
                )
                runs[page.resolve()] = Run(cells, process)
                _tell(process, (str(page.parent), cells))
            yield runs
        finally:
            for run in runs.values():
                _end(run.process)


def _tell(process: subprocess.Popen[bytes], what: object) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        pickle.dump(what, process.stdin)
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.send_signal(signal.SIGHUP)  # it ends its kernel, and itself
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    try:
        process.wait(_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def taking(runs: Mapping[Path, Run]) -> Iterator[None]:
    """Inside of the block MyST-NB takes over what came of pages that are being executed."""
    if not runs:
        yield
        return
    from labcode.book.sphinx import execution

    execute = execution.execute
    left = dict(runs)

    def take(notebook: Any, folder: Path, **more: Any) -> tuple[float, Exception | None]:
        cells = _sources(notebook)
        special = {"raises-exception", "skip-execution"}
        plain = not any(special & set(cell.metadata.get("tags", ())) for cell in notebook.cells)
        same = [page for page, run in left.items() if page.parent == folder.resolve() and run.cells == cells]
        if not same or not plain or notebook.metadata.get("kernelspec", {}).get("name") != _KERNEL:
            return execute(notebook, folder, **more)
        outcome = _outcome(left.pop(same[0]).process)
        if outcome is None:
            return execute(notebook, folder, **more)
        done, seconds, error = outcome
        asked = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell, executed in zip(asked, done.cells, strict=True):
            cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
        notebook.metadata.update({k: v for k, v in done.metadata.items() if k != "kernelspec"})
        return seconds, error

    with mock.patch.object(execution, "execute", take):
        yield


def _outcome(process: subprocess.Popen[bytes]) -> Any:
    """The executed notebook, the seconds that it took and the error that ended it; ``None`` without any."""
    assert process.stdout is not None
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        return None


def main() -> None:
    """Execute the cells that standard input tells of, and write to standard output what came of them."""
    import time

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    folder, cells = pickle.load(sys.stdin.buffer)
    began = time.monotonic()

    from jupyter_client.channels import AsyncZMQSocketChannel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError
    from nbformat import NotebookNode, from_dict

    written = {
        "nbformat": 4,
        "nbformat_minor": 4,
        "metadata": {"kernelspec": {"name": _KERNEL, "display_name": _KERNEL}},
        "cells": [
            {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
            for cell in cells
        ],
    }
    notebook: NotebookNode = from_dict(written)  # type: ignore[no-untyped-call]

    def hand_over(error: Exception | None = None) -> None:
        with contextlib.suppress(BrokenPipeError), out:
            pickle.dump((notebook, time.monotonic() - began, error), out)

    def executed(cell_index: int, execute_reply: Mapping[str, Any], **_: object) -> None:
        if cell_index == len(cells) - 1 and execute_reply["content"]["status"] == "ok":
            hand_over()  # before the kernel ends, for which nobody need wait

    client = NotebookClient(
        notebook,
        **options(Path(tempfile.mkdtemp(dir=os.environ.get("JUPYTER_RUNTIME_DIR")))),
        resources={"metadata": {"path": folder}},
        on_cell_executed=executed,
    )
    receive = AsyncZMQSocketChannel.get_msg

    async def sooner(channel: Any, timeout: float | None = None) -> Any:
        """What a new kernel says first, and nobody reads, is waited for until nothing came for so long."""
        return await receive(channel, _SILENCE_S if timeout == _KERNELS_SILENCE_S else timeout)

    mock.patch.object(AsyncZMQSocketChannel, "get_msg", sooner).start()
    signal.signal(signal.SIGHUP, lambda *_: _leave(client))
    threading.Thread(target=_leave_with_caller, args=[client], daemon=True).start()
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        hand_over(error)


def _leave_with_caller(client: Any) -> None:
    sys.stdin.buffer.read()  # to its end, which comes with that of the process that began this
    _leave(client)


def _leave(client: Any) -> None:
    """End the kernel and this process."""
    process = client.km.provisioner.process if client.km and client.km.provisioner else None
    if process is not None:
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
    os._exit(0)  # the thread may still read
