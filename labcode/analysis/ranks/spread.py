"""A function and many files in; for each file what it gave, or why it gave nothing, out::

    with Spreader(scheduler=None, files=100) as spreader:
        done, lost = spreader.map(lanes_of, files)

Few files are read in this process, one after another; more by processes of this machine, or where asked by
a cluster's workers (Dask's `distributed`, as the recipes of Nsight Systems have them). A file is a task, of
many files a few are, a worker has one task at a time, and what a worker hands back is small.
"""

import contextlib
import importlib
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from labcode.errors import LabError, describe_os_error
from labcode.hardware.host import usable_cpus
from labcode.inputs import Closing

T = TypeVar("T")

HERE = "here"
FEW = 8  # files for which starting workers takes longer than reading them
TOGETHER = 8  # files of a task at most: a task costs the scheduler milliseconds, as reading a small file does
TASKS = 128  # that a map is divided into before files go together, so that many workers have some
JOB_QUEUES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}
_GONE = ("CancelledError", "FutureCancelledError", "CommClosedError")  # a scheduler's errors when it ends
_ANSWER_S = 10  # in which a scheduler has to answer
_EXTRA = "python -m pip install distributed"
_DIED = (None, "the worker that read it died, twice (out of memory?)")


@dataclass(frozen=True)
class Lost:
    """A file that gave nothing, and why, in a line."""

    path: Path
    why: str


class Spreader(Closing):
    """Where files are worked on: in this process, by workers on this machine, or by a cluster's.

    ``scheduler``: None; the address of a Dask scheduler (``tcp://host:8786``) or its file (``X.json``); or
    `HERE`, this process; ``slurm:16``, 16 jobs by dask-jobqueue as its configuration says (`JOB_QUEUES` names
    the others). ``files`` is how many there will be. ``note`` says what was chosen, '' where there is nothing
    to say. Raises `LabError` for a scheduler that is none or does not answer, and where Dask is asked for and
    missing.
    """

    def __init__(self, scheduler: str | None = None, *, files: int) -> None:
        self._closing = contextlib.ExitStack()
        self._client: Any = None
        self._workers: Workers | None = None
        self._lost: type[BaseException] = LabError
        try:
            if scheduler not in (None, HERE):
                self._client = self._connect(str(scheduler))
            elif files > FEW and scheduler != HERE:
                self._workers = self._closing.enter_context(Workers(min(files, usable_cpus())))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the workers go that were started."""
        self._closing.close()

    def map(self, function: Callable[[Path], T], files: Sequence[Path]) -> tuple[list[T], list[Lost]]:
        """What ``function`` gives for each file, in their order, and the files that gave nothing.

        A file that cannot be read, or whose worker dies with it alone in hand, is lost by its name; the
        others are not. Raises `LabError` when the scheduler goes away, and where no worker can be started.
        """
        work = partial(guarded, function)
        if self._workers is not None:
            found = self._workers.map(work, files)
        elif self._client is None:
            found = dict(zip(files, map(work, files), strict=True))
        else:
            found = self._spread(work, [path.resolve() for path in files])
            found = {path: found[path.resolve()] for path in files}
        done: list[Any] = [found[path][0] for path in files if found[path][1] is None]
        return done, [Lost(path, found[path][1]) for path in files if found[path][1] is not None]

    def _spread(self, work: Callable[[Path], Any], files: Sequence[Path]) -> dict[Path, Any]:
        from distributed import as_completed

        found: dict[Path, Any] = {}
        again: list[Path] = []
        parts = _parts(files)
        try:
            made = self._client.map(partial(_packed, work), parts, pure=False, retries=0)
            futures = dict(zip(made, parts, strict=True))
            for future in as_completed(futures):
                if future.status == "cancelled":
                    raise ConnectionError
                try:  # its status may change: what a worker had finished is worked out anew when it dies
                    found |= zip(futures[future], pickle.loads(future.result()), strict=True)
                except self._lost:
                    again += futures[future]
                future.release()
            for path in again:  # alone: the one that dies again took the others with it
                future = self._client.submit(work, path, pure=False, retries=0)
                try:
                    found[path] = future.result()
                except self._lost:
                    found[path] = _DIED
        except (LabError, KeyboardInterrupt):
            raise
        except Exception as error:
            if not isinstance(error, OSError | TimeoutError) and type(error).__name__ not in _GONE:
                raise
            raise LabError(
                f"the Dask scheduler went away after {len(found)} of {len(files)} reports; start it again, "
                "or leave out --scheduler"
            ) from None
        return found

    def _connect(self, scheduler: str) -> Any:
        try:
            distributed = importlib.import_module("distributed")
        except ImportError:
            raise LabError(f"--scheduler {scheduler}: Dask is not installed; {_EXTRA}") from None
        self._lost = distributed.scheduler.KilledWorker
        queue, _, jobs = scheduler.partition(":")
        if queue in JOB_QUEUES:
            return self._queued(distributed, queue, jobs)
        where = {"scheduler_file": scheduler} if scheduler.endswith(".json") else {"address": scheduler}
        if "scheduler_file" in where and not Path(scheduler).is_file():
            raise LabError(f"--scheduler {scheduler}: no such file; name the one that dask scheduler wrote")
        with _quiet():
            try:
                return self._closing.enter_context(distributed.Client(**where, timeout=_ANSWER_S))
            except (OSError, TimeoutError, ValueError) as error:
                raise LabError(
                    f"--scheduler {scheduler}: no Dask scheduler answers there ({type(error).__name__}); "
                    "start one with `dask scheduler`, or leave out --scheduler"
                ) from None

    def _queued(self, distributed: Any, queue: str, jobs: str) -> Any:
        if not jobs.isdecimal() or not int(jobs):
            raise LabError(f"--scheduler {queue}: say how many jobs, such as {queue}:16")
        try:
            made = getattr(importlib.import_module("dask_jobqueue"), JOB_QUEUES[queue])()
        except ImportError:
            raise LabError(
                f"--scheduler {queue}: dask-jobqueue is not installed; python -m pip install dask-jobqueue"
            ) from None
        except (ValueError, OSError) as error:
            raise LabError(
                f"--scheduler {queue}: dask-jobqueue cannot submit ({error}); it reads "
                "~/.config/dask/jobqueue.yaml"
            ) from None
        self._closing.callback(made.close)
        made.scale(jobs=int(jobs))
        return self._closing.enter_context(distributed.Client(made))


class Workers(Closing):
    """So many processes of this machine, started anew after one of them died; they end when this one does.

    Raises `LabError` where none can be started, be it at the first use.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool, self._alive = self._started()

    def close(self) -> None:
        """Let them go, whatever they have in hand."""
        self._alive.close()
        self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Path], Any], files: Sequence[Path]) -> dict[Path, Any]:
        """What ``work`` gives for each file; `_DIED` for one that no process survives."""
        found: dict[Path, Any] = {}
        parts, flying = deque(_parts(files)), dict[Future[bytes], Sequence[Path]]()
        while parts or flying:
            try:
                while parts and len(flying) < 2 * self._count:  # few, of which one is to blame for a death
                    flying[self._submit(_packed, work, parts[0])] = parts[0]
                    parts.popleft()
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    found |= zip(flying[future], pickle.loads(future.result()), strict=True)
                    del flying[future]
            except BrokenProcessPool:
                self._again()
                for path in (path for part in flying.values() for path in part):  # alone
                    try:
                        found[path] = self._submit(work, path).result()
                    except BrokenProcessPool:
                        found[path] = _DIED
                        self._again()
                flying.clear()
        return found

    def _submit(self, function: Callable[..., T], *given: object) -> Future[T]:
        """Hand in a task; a process that starts for it is not reached by Ctrl-C, which is for this one."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _nothing_of_this_folder():
                return self._pool.submit(function, *given)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _again(self) -> None:
        self.close()
        self._pool, self._alive = self._started()
        try:
            self._submit(os.getpid).result()
        except BrokenProcessPool:
            raise LabError(
                "no workers could be started; in a program of your own, put what reads the reports under "
                'if __name__ == "__main__":'
            ) from None

    def _started(self) -> tuple[ProcessPoolExecutor, Connection]:
        """Processes that begin anew, for one that has threads, or a GPU, is not to be copied."""
        spawn = multiprocessing.get_context("spawn")
        ends, alive = spawn.Pipe(duplex=False)
        try:
            with _nothing_of_this_folder():
                return ProcessPoolExecutor(self._count, spawn, _until, (ends,)), alive
        except (OSError, NotImplementedError) as error:
            raise LabError(f"no workers could be started ({error}); --scheduler here needs none") from None


@contextlib.contextmanager
def _nothing_of_this_folder() -> Iterator[None]:
    """What starts meanwhile imports no module of the current folder, which may have come with the reports:
    Python looks there first for what starts processes (a ``signal.py``).
    """
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ |= {} if before is None else {name: before}


def _until(ends: Connection) -> None:
    """Have this process end with the one that started it, be it killed."""

    def end() -> None:
        with contextlib.suppress(OSError):
            ends.poll(None)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def _parts(files: Sequence[Path]) -> list[Sequence[Path]]:
    """The files of each task."""
    size = min(TOGETHER, 1 + len(files) // TASKS)
    return [files[at : at + size] for at in range(0, len(files), size)]


def guarded(function: Callable[[Path], T], path: Path) -> tuple[T | None, str | None]:
    """What a function gives for a file, or why it cannot: a damaged file does not end the others."""
    try:
        return function(path), None
    except LabError as error:
        return None, str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return None, describe_os_error(error).removeprefix(f"{path}: ")
    except MemoryError:
        return None, "more than fits into memory"
    except RecursionError:
        return None, "nested too deep for a capture"


def _packed(work: Callable[[Path], Any], files: Sequence[Path]) -> bytes:
    """What a function gives for each of a few files, in one piece: Dask would send every array by itself."""
    return pickle.dumps([work(path) for path in files], pickle.HIGHEST_PROTOCOL)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Dask logs while it looks for a scheduler stays unsaid."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
