"""Python processes that have some modules already: their names in, a command to use as Python out.

A server imports what is named. The command, a shell's line that starts `CLIENT`, hands it its arguments,
environment, folder and standard streams, and the server forks: what runs is a process of its own, where
those modules are there already. The client passes signals on and ends as the process ends; when the client is
killed, so is the process. Only ``-m MODULE`` is understood (options before it are left out).
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

# Its arguments: the folder of the socket, the name of the command, what that was called with. The path of the
# socket may be longer than an address can be; through the open folder it is short.
CLIENT = """
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    folder = os.open(sys.argv[1], os.O_PATH)
    server.connect(f"/proc/self/fd/{folder}/socket")
    os.close(folder)
    asked = json.dumps([sys.argv[2], sys.argv[3:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    answers = server.makefile()
    process = int(answers.readline())
    def pass_on(number, _):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass  # it has just ended
    signal.signal(signal.SIGINT, pass_on)
    signal.signal(signal.SIGTERM, pass_on)
    status = int(answers.readline())
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
_CLIENT = "client.py"


# What pages import, and what runs them; what only some of them import.
OF_PAGES = (
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "labcode.book",
    "labcode.figures",
    "labcode.reports.nsys.report",
)
OF_SOME = ("labcode.analysis.rules.driver", "bokeh.embed", "bokeh.plotting")


@contextlib.contextmanager
def kernels() -> Iterator[None]:
    """Inside of the block Jupyter's Python kernels have at hand what pages import."""
    if not hasattr(os, "pidfd_open"):  # not Linux: they start as ever
        yield
        return
    before = os.environ.get("JUPYTER_PATH")
    with preloaded(*OF_PAGES, later=OF_SOME) as command:
        kernel = Path(command).parent / "kernels" / "python3"
        kernel.mkdir(parents=True)
        own = "--IPKernelApp.parent_handle=1"  # it need not look for its parent, the server does
        words = [*client(command), "-m", "ipykernel_launcher", "-f", "{connection_file}", own]
        spec = {"argv": words, "display_name": "Python 3 (ipykernel)", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, (str(Path(command).parent), before)))
        try:
            yield
        finally:
            os.environ.pop("JUPYTER_PATH", None)
            if before is not None:
                os.environ["JUPYTER_PATH"] = before


def client(command: str) -> list[str]:
    """The command without the shell: the words that start its client."""
    folder = Path(command).parent
    return [sys.executable, "-SE", str(folder / _CLIENT), str(folder), command]


@contextlib.contextmanager
def preloaded(*modules: str, later: Sequence[str] = ()) -> Iterator[str]:
    """The path of the command; the server, which imports the modules beside all else, ends with the block.

    What is to be had ``later`` is imported while nobody waits, but not beside the first process alone: that
    may be all there is.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        place = os.open(folder, os.O_PATH)
        listener.bind(f"/proc/self/fd/{place}/socket")
        os.close(place)
        listener.listen(64)  # who comes before the server has its modules waits
        called = Path(folder) / "python"
        called.with_name(_CLIENT).write_text(CLIENT, encoding="utf-8")
        # No line of Python's own (#!): that takes neither a space in its path nor a long one.
        called.write_text(f'#!/bin/sh\nexec {shlex.join(client(str(called)))} "$@"\n', encoding="utf-8")
        called.chmod(0o755)
        number = listener.fileno()
        command = [sys.executable, "-P", __file__, str(number), ",".join(later), *modules]
        server = subprocess.Popen(command, pass_fds=[number], stdin=subprocess.PIPE)
        listener.close()
        try:
            yield str(called)
        finally:
            server.terminate()
            server.communicate()


def serve(number: str, later: str, *modules: str) -> None:
    """Fork for each client until standard input ends, as it does with the process that began this.

    Returns only in the new processes, which then are the program asked for.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(fileno=int(number))
    left = list(filter(None, later.split(",")))
    both, served = [listener.fileno(), sys.stdin.fileno()], 0
    while sys.stdin.fileno() not in (
        ready := select.select(both, [], [], 0 if left and served != 1 else None)[0]
    ):
        if not ready:
            importlib.import_module(left.pop(0))
            continue
        gc.freeze()
        client, _ = listener.accept()
        served += 1
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            attend(client)
            return
        client.close()
    os._exit(0)


def attend(client: socket.socket) -> None:
    """Start one process, and wait until it, its client or, of a kernel, who started it ends; returns in the
    process alone.
    """
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    left, asked = int.from_bytes(head, "big"), b""
    while len(asked) < left:
        asked += client.recv(left - len(asked))
    executable, words, environment, folder = json.loads(asked)
    process = os.fork()
    if process == 0:
        client.close()
        become(streams, executable, words, environment, folder)
        return
    client.sendall(f"{process}\n".encode())
    ended = os.pidfd_open(process)
    beginner = environment.get("JPY_PARENT_PID") if "ipykernel_launcher" in words else None
    if not _outlives(ended, client, beginner):
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:  # it has not become a group of its own yet
            os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(OSError):
        client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _outlives(ended: int, client: socket.socket, beginner: str | None) -> bool:
    """Wait; whether a process ends before its client and, of a kernel, the process that began it."""
    waits = [ended, client.fileno()]
    if beginner is not None:
        try:
            waits.append(os.pidfd_open(int(beginner)))
        except ProcessLookupError:
            return False
    return ended in select.select(waits, [], [])[0]


def become(
    streams: list[int], executable: str, words: list[str], environment: dict[str, str], folder: str
) -> None:
    """Take over what a new process would have got."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.executable = executable
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    program = next(i for i, word in enumerate(words) if not word.startswith("-"))
    sys.argv = words[program:]
    added = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [folder, *added, *(path for path in sys.path[1:] if path not in added)]


def run(program: str) -> int:
    """Run a script or a module up to its exit code; its threads and exit functions have ended."""
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(*sys.argv[1:])
    os._exit(run(sys.argv[0]))  # taking their modules apart takes longer than all else
