"""Captures for pages: an experiment and a run of the current set in, an open report or a program's record
out.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from labcode import store

if TYPE_CHECKING:
    from labcode.reports.ncu import NcuReport
    from labcode.reports.nsys import NsysReport


def capture(experiment: str, run: str) -> NsysReport:
    """The Nsight Systems report of one run, opened from the set the book is built around.

    An experiment that the set lacks comes from the shipped set; the page's stamp says so. Raises
    `labcode.errors.InputError` when there is no such run or the file was changed since it was captured.
    """
    from labcode.reports.nsys import open_report

    return open_report(_holder(experiment).path_of(experiment, run, ".sqlite"))


def launches(experiment: str, run: str) -> NcuReport:
    """The Nsight Compute report of one run: its launches with their metrics, rules and source.

    Raises `labcode.errors.InputError` as `capture` does.
    """
    from labcode.reports.ncu import open_report

    return open_report(_holder(experiment).path_of(experiment, run, ".ncu-rep"))


def record(experiment: str, run: str, clean: bool = False) -> dict[str, Any]:
    """What the program itself wrote about a run: its ``parameters``, ``results``, ``checks`` and ``gpu``.

    ``clean=True`` is the run without a profiler, whose times are the ones to quote as speed.
    """
    return _holder(experiment).record(experiment, run, clean=clean)


@cache
def _holder(experiment: str) -> store.CaptureSet:
    return store.holder(store.current_set(), experiment)
