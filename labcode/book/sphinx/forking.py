"""Kernels forked from one process that has imported what every page imports: requests in, kernels out.

A kernel of its own imports Jupyter, NumPy, pandas and the lab for about a second, on each of eighty pages.
Here a build starts one such process (`kernels`), which forks wherever a page is executed (`Forked`, a
provisioner of Jupyter's). It ends with the build, and a kernel with whoever asked for it, however those end.
Where that process cannot be, and for a few pages, kernels are started as Jupyter starts them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from multiprocessing.connection import Client, Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from labcode.errors import LabError
from labcode.freshness import is_fresh
from labcode.outputs import private_folder
from labcode.store import list_sets, load_set

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WORTH = 8  # pages to be read, from which on a process for their kernels is worth its start
_WAITING = 64  # who ask while one is forked
_IMPORTED = (  # by most pages, or at length by some
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "tornado.platform.asyncio"),
    *("IPython.core.debugger", "IPython.core.oinspect", "IPython.extensions.storemagic"),
    *("numpy", "pandas", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "bokeh.embed"),
    *("labcode.book", "labcode.figures", "labcode.figures.diagrams.openings", "labcode.analysis.ledger"),
    *("labcode.reports.nsys.open", "labcode.reports.ncu.open", "labcode.reports.power", "labcode.kernels"),
)
_DEBUGGER = "debugpy"  # which a kernel would load for half a second, and no page needs
_LAUNCHER, _NAME = "ipykernel_launcher", "labcode-forked"
_BACKEND = "module://matplotlib_inline.backend_inline"
_STARTUP_S = 120  # of the process, where much else is to be done
_address = ""  # of that process, while there is one


def register(app: Sphinx) -> None:
    """Have the kernels of a build of many pages forked."""
    opened = contextlib.ExitStack()

    def begin(_: Sphinx, __: Any, pages: Sequence[str]) -> None:
        if len(pages) >= WORTH:
            opened.enter_context(kernels())
            _know_sources()  # meanwhile

    app.connect("env-before-read-docs", begin)
    app.connect("env-updated", lambda *_: opened.close())  # all are read
    app.connect("build-finished", lambda *_: opened.close())  # some failed


def _know_sources() -> None:
    """Read the sources of all captures, which else each process that reads pages does for itself."""
    with contextlib.suppress(LabError):  # pages say it
        for captures in map(load_set, list_sets()):
            for name in captures.experiments:
                is_fresh(captures.experiment(name))


@contextlib.contextmanager
def kernels() -> Iterator[None]:
    """Inside of the block kernels are forked, those too that processes forked in it ask for."""
    global _address
    if not hasattr(os, "pidfd_open"):  # macOS, where a fork of much that is imported is not safe
        yield
        return
    factory = KernelProvisionerFactory.instance()
    ordinary = factory.default_provisioner_name
    factory.provisioners[_NAME] = EntryPoint(_NAME, f"{__name__}:Forked", factory.GROUP_NAME)
    with private_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        _address = str(folder / "kernels")
        listener.bind(_address)
        listener.listen(_WAITING)
        words = [sys.executable, "-P", "-m", __name__, str(listener.fileno())]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "pass_fds": [listener.fileno()]}
        with subprocess.Popen(
            words, start_new_session=True, **pipes
        ) as server:  # it ends when its stdin does
            listener.close()  # who asks when it has ended is refused
            factory.default_provisioner_name = _NAME
            try:
                yield
            finally:
                factory.default_provisioner_name, _address = ordinary, ""
                server.terminate()  # perhaps it is not even ready


class _Process:
    """What Jupyter asks of a `subprocess.Popen`, of a kernel that another process forked."""

    stdin = stdout = stderr = None
    returncode: int | None = None

    def __init__(self, server: Any, pid: int) -> None:
        self.pid, self._server = pid, server

    def poll(self) -> int | None:
        if self.returncode is None and self._server.poll():
            try:
                self.returncode = self._server.recv()
            except (EOFError, OSError):  # the server was killed, and its kernels end with it
                self.returncode = -signal.SIGKILL
            self._server.close()
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forked(LocalProvisioner):
    """Has a kernel forked; starts it as Jupyter does where that fails or another program is asked for."""

    async def launch_kernel(self, cmd: list[str], **more: Any) -> Any:
        """Have the kernel of a command run; what it is to be reached by."""
        found = _ask(cmd[cmd.index(_LAUNCHER) + 1 :], more) if _LAUNCHER in cmd else None
        if found is None:
            return await super().launch_kernel(cmd, **more)
        self.process: Any = found
        self.pid = self.pgid = found.pid
        return self.connection_info


def _ask(arguments: Sequence[str], more: dict[str, Any]) -> _Process | None:
    try:
        server = Client(_address, family="AF_UNIX")
        server.send((list(arguments), str(more.get("cwd") or Path.cwd()), dict(more["env"])))
        return _Process(server, server.recv()) if server.poll(_STARTUP_S) else None
    except (EOFError, OSError):
        return None


class _Kernel(NamedTuple):
    pid: int
    end: Any  # a file that can be read once the kernel has ended
    asker: Any  # the connection to who asked for it, who says nothing more


def _serve(listener: socket.socket) -> Any:
    """Fork for all who ask until the build is gone: ``None`` in the server, in a fork what was asked for."""
    kernels: list[_Kernel] = []
    while True:
        files = [file for kernel in kernels for file in (kernel.end, kernel.asker)]
        ready = wait([sys.stdin.fileno(), listener, *files])
        for kernel in [kernel for kernel in kernels if kernel.asker in ready or sys.stdin.fileno() in ready]:
            with contextlib.suppress(OSError):
                os.killpg(kernel.pid, signal.SIGKILL)  # nobody waits for it any more
        if sys.stdin.fileno() in ready:
            return None
        for kernel in [kernel for kernel in kernels if kernel.end in ready]:
            kernels.remove(kernel)
            code = os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1])
            with contextlib.suppress(OSError):
                kernel.asker.send(code)
            kernel.asker.close()
            kernel.end.close()
        if listener in ready:
            asker = Connection(listener.accept()[0].detach())
            with contextlib.suppress(EOFError, OSError):
                asked = asker.recv()
                pid = os.fork()
                if pid == 0:
                    for file in (listener, asker, *files):
                        file.close()
                    return asked
                kernels.append(_Kernel(pid, os.fdopen(os.pidfd_open(pid), "rb", 0), asker))
                asker.send(pid)


def _main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    os.environ["JPY_PARENT_PID"] = str(
        os.getpid()
    )  # whose end ends a kernel; read when Jupyter's is imported
    os.environ.setdefault("MPLBACKEND", _BACKEND)  # as Jupyter's kernel does before matplotlib reads it
    sys.modules[_DEBUGGER] = None  # type: ignore[assignment]
    for name in _IMPORTED:
        importlib.import_module(name)
    with contextlib.suppress(LabError):  # pages say it
        for name in list_sets():
            load_set(name)
    gc.collect()
    gc.freeze()  # what all have is not looked through by each
    asked = _serve(listener)
    if asked is None:
        return
    arguments, folder, environment = asked
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | {"JPY_PARENT_PID": str(os.getppid())})
    sys.argv[1:] = arguments
    importlib.import_module("ipykernel.kernelapp").launch_new_instance(arguments)


if __name__ == "__main__":
    _main()
