"""The processes that read and write pages for Sphinx: they end with the one that forked them, and are missed
when they end before they are done.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

from sphinx.util.parallel import ParallelTasks

from labcode.errors import LabError

_process, _join_one, _terminate = ParallelTasks._process, ParallelTasks._join_one, ParallelTasks.terminate


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Inside of the block Sphinx's processes and the one that forks them look after each other."""
    with mock.patch.multiple(ParallelTasks, _process=_run, _join_one=_join, terminate=_kill):
        yield


def _run(tasks: ParallelTasks, pipe: Any, function: Any, argument: Any) -> None:
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _process(tasks, pipe, function, argument)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # else what was read waits in a pipe that nobody empties


def _join(tasks: ParallelTasks) -> bool:
    for task in tasks._precvs:
        code = tasks._procs[task].exitcode
        if code:
            pages = [page if isinstance(page, str) else page[0] for page in tasks._args[task] or ()]
            raise LabError(
                f"book: the process with {', '.join(pages)} ended before it was done "
                f"({f'signal {-code}' if code < 0 else f'exit code {code}'}); is memory short?"
            )
    return _join_one(tasks)


def _kill(tasks: ParallelTasks) -> None:
    """End what still runs at once; asked to end, it would only end the cell that it executes."""
    for task in tasks._precvs:
        tasks._procs[task].kill()
    _terminate(tasks)
