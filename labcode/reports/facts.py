"""What is said first of an opened file, by its format: a report in; its GPUs, kernels, facts, a card out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labcode.errors import LabError
from labcode.reports import FORMATS, Kind, imported, kind_of
from labcode.reports.frames import codes_of
from labcode.reports.report import LaunchesReport, MemoryReport, PowerReport, TimelineReport
from labcode.show import html_facts, one_line, time_text


@dataclass(frozen=True)
class Facts:
    """How to summarize files of a format: the names of their GPUs and kernels, and facts for a card."""

    gpus: Callable[[Any], Sequence[object]]
    kernels: Callable[[Any], Sequence[str]]
    told: Callable[[Any], dict[str, str]]


def facts_of(kind: Kind) -> Facts:
    """The `Facts` of a format."""
    found: Facts = imported(str(FORMATS[kind].facts))
    return found


def card(report: Any) -> str:
    """What a notebook shows of an opened report: file, GPUs, what is said of it first, what is odd."""
    kind = kind_of(report.path)
    facts, title, told = facts_of(kind), one_line(str(report.path), 200), {"kind": FORMATS[kind].what}
    try:
        gpus = ", ".join(dict.fromkeys(one_line(str(name), 80) for name in facts.gpus(report) if name))
        told |= {**({"GPUs": gpus} if gpus else {}), **facts.told(report)}
    except LabError as error:  # damaged where nobody looked so far, or closed: a notebook goes on
        return html_facts(title, told, [one_line(str(error))])
    return html_facts(title, told, report.warnings)


def _none(_: object) -> Sequence[str]:
    return ()


def _of_timeline(report: TimelineReport) -> dict[str, str]:
    begin, end = report.window()
    return {
        "measured": time_text(end - begin),
        "GPU operations": f"{len(report.gpu_ops()):,}",
        "GPUs in use": f"{report.gpu_ops()['device'].nunique()}",
    }


def _of_trace(report: Any) -> dict[str, str]:
    return {**_of_timeline(report), "ranks": str(len(report.distributed()))}


def _of_history(history: MemoryReport) -> dict[str, str]:
    return {"events": f"{len(history.events):,}"}


def _of_launches(report: LaunchesReport) -> dict[str, str]:
    return {"launches": f"{len(report.list):,}"}


def _of_log(log: Any) -> dict[str, str]:
    begin, end = log.window()
    return {
        "command": one_line(log.command or "not recorded", 120),
        "measured": time_text(end - begin),
    }


def _gpus(report: TimelineReport) -> Sequence[object]:
    return report.gpus()["name"].tolist()


def _metered(log: PowerReport) -> Sequence[object]:
    return log.devices["name"].tolist()


def _launched_on(report: LaunchesReport) -> Sequence[object]:
    return [one.device().get("display_name") for one in report.list]


def _kernels(report: TimelineReport) -> Sequence[str]:
    return list(codes_of(report.kernels()["short_name"])[1])


def _launched(report: LaunchesReport) -> Sequence[str]:
    return [one.function for one in report.list]


CAPTURES = Facts(_gpus, _kernels, _of_timeline)
TRACES = Facts(_gpus, _kernels, _of_trace)
LAUNCHES = Facts(_launched_on, _launched, _of_launches)
HISTORIES = Facts(_none, _none, _of_history)
LOGS = Facts(_metered, _none, _of_log)
