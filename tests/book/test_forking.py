"""Kernels forked from one process: they are as those that Jupyter starts, and end with who asked for them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import DeadKernelError

from labcode.book.sphinx import execution, forking
from tests.book.test_at_once import running, until

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="kernels are forked on Linux")
SAYS = """
import os, sys
ready = "pandas" in sys.modules
import matplotlib
inline = "inline" in matplotlib.get_backend()
print(os.getppid(), os.getcwd(), os.environ["MARK"], ready, sys.argv[1:2], inline)
"""
WAITS = """
import pathlib, sys
from tests.book.test_forking import shown
from labcode.book.sphinx import forking
with forking.kernels():
    shown("import pathlib, time; pathlib.Path({began!r}).touch(); time.sleep(1000)", pathlib.Path({folder!r}))
"""


def shown(source: str, folder: Path) -> str:
    """What a page of one cell shows."""
    import nbformat

    cells = [nbformat.v4.new_code_cell(source)]  # type: ignore[no-untyped-call]
    kernel = {"kernelspec": {"name": "python3", "display_name": "python3"}}
    notebook: Any = nbformat.v4.new_notebook(cells=cells, metadata=kernel)  # type: ignore[no-untyped-call]
    _, failed = execution.execute(notebook, folder)
    if failed is not None:
        raise failed
    return "".join(output.text for output in notebook.cells[0].outputs)


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    with forking.kernels():
        yield


def test_a_kernel_is_forked_with_the_folder_and_environment_of_its_page(
    forked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", "later")
    servers = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        server, *said = shown(SAYS, tmp_path / name).split()
        assert said == [str(tmp_path / name), "later", "True", "['-f']", "True"]
        servers.add(int(server))
    assert len(servers) == 1 and os.getpid() not in servers


def test_a_kernel_that_dies_is_missed(forked: None, tmp_path: Path) -> None:
    with pytest.raises(DeadKernelError):
        shown("import os; os._exit(3)", tmp_path)


def test_where_nothing_can_be_forked_jupyter_starts_the_kernel(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MARK", "own")
    with forking.kernels():
        monkeypatch.setattr(forking, "_address", str(tmp_path / "nobody"))
        assert shown(SAYS, tmp_path).split()[0] == str(os.getpid())


def test_kernels_end_with_a_build_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK", str(tmp_path))
    words = WAITS.format(began=str(tmp_path / "began"), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", words], cwd=Path(__file__).parents[2]) as build:
        until(lambda: (tmp_path / "began").exists() or build.poll() is not None, "no page was begun")
        assert len(running(tmp_path)) >= 3  # the build, what forks, its kernel
        build.send_signal(signal.SIGKILL)
    until(lambda: not running(tmp_path), "they still run")
