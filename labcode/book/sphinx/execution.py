"""Pages executed for MyST-NB: a page's notebook in, the same with the outputs of its cells out.

MyST-NB's own way to keep outputs is a database of jupyter-cache, in which one process deletes what another is
about to file. This is in its place (`install`), with outputs kept by `labcode.book.sphinx.kept`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import myst_nb.core.execute
from myst_nb.core.execute.base import ExecutionError, NotebookClientBase

from labcode.book.sphinx import kept
from labcode.outputs import private_folder

TIMEOUT_S = 120  # of a cell
_STARTUP_S = 300  # of a kernel, where much else is to be done
_LONGEST_SOCKET = 100  # bytes of a path; systems take 103 and more


def settings(root: Path) -> dict[str, str]:
    """The environment of kernels: no start-up files of the user reach the pages."""
    return {
        "IPYTHONDIR": str(root / "_build" / ".ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


class PageClient(NotebookClientBase):  # type: ignore[misc]
    """What MyST-NB asks for a page's outputs: those kept or, where there are none, of an execution."""

    def start_client(self) -> None:
        """Fill the notebook; ``ExecutionError``, with the cell's error as its cause, where a cell fails."""
        keeps = self.nb_config.execution_mode == "cache"
        folder = Path(self.nb_config.execution_cache_path)
        found = kept.fill(folder, self.notebook) if keeps else None
        if found is None:
            config = self.nb_config
            seconds, error = execute(
                self.notebook,
                self.path.parent,
                timeout=config.execution_timeout,
                allow_errors=config.execution_allow_errors,
            )
            if error is not None:
                raise ExecutionError(str(self.path)) from error
            found = kept.keep(folder, self.notebook, seconds) if keeps else kept.Kept(time.time(), seconds)
        # with a date given, a build is to come out the same again: it tells no time of its own
        told = "SOURCE_DATE_EPOCH" not in os.environ
        self.exec_metadata = {
            "mtime": found.executed if told else None,
            "runtime": found.seconds if told else None,
            "method": self.nb_config.execution_mode,
            "succeeded": True,
            "error": None,
            "traceback": None,
        }


def execute(notebook: Any, folder: Path, **more: Any) -> tuple[float, Exception | None]:
    """Execute a notebook's cells; the seconds that it took, and the error of the cell that ended it."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    began, failed = time.monotonic(), None
    with private_folder() as sockets:
        client = NotebookClient(
            notebook,
            resources={"metadata": {"path": str(folder)}},
            **_options(sockets) | more,
        )
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError) as error:
            failed = error
    return time.monotonic() - began, failed


def _options(folder: Path) -> dict[str, Any]:
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
        "shutdown_kernel": "immediate",  # all that it had to say has been heard
    }


def install() -> None:
    """Have MyST-NB execute pages by this module, whether it keeps their outputs or not."""
    for name in ("NotebookClientCache", "NotebookClientDirect"):
        if not hasattr(myst_nb.core.execute, name):
            raise ImportError(f"MyST-NB has no {name} any more; see the versions in constraints.txt")
        setattr(myst_nb.core.execute, name, PageClient)
