"""Reports of `labcode stats` that nsys has not: a report's name and a capture in, its table out.

Times are in nanoseconds, shares in percent; all are of the measured part of the capture.
"""

import pandas as pd

from labcode.analysis.stats.nsys import waits
from labcode.analysis.stats.shelf import LackingError
from labcode.analysis.timeline import launch_sites, os_runtime, stacks, switches
from labcode.analysis.timeline.iterations import iterations as iterations_of
from labcode.analysis.timeline.utilization import idle_gaps
from labcode.reports.nsys.report import NsysReport


def python_stacks(report: NsysReport) -> pd.DataFrame:
    """Python stacks, the most frequent first: Share (%), Samples, Stack (root;…;innermost)."""
    folded = _python(report)
    return pd.DataFrame(
        {
            "Share (%)": _percent(folded["weight"] / max(folded["weight"].sum(), 1)),
            "Samples": folded["count"],
            "Stack": pd.Series([";".join(stack) for stack in folded["stack"]], dtype="str"),
        }
    )


def python_functions(report: NsysReport) -> pd.DataFrame:
    """Python functions by their own samples: Self (%), Total (%), Self Samples, Total Samples, Function."""
    return _functions(_python(report))


def cpu_samples(report: NsysReport) -> pd.DataFrame:
    """Native functions by their own samples: Self (%), Total (%), Self Samples, Total Samples, Function."""
    frames = report.cpu_callchains()
    samples = stacks.during(report.cpu_samples(), _window(report, report.cpu_samples()))
    return _functions(stacks.fold(frames, stacks.native_labels(frames), samples["sample"]))


def thread_states(report: NsysReport) -> pd.DataFrame:
    """Threads on a CPU and off it: Running (%), Running, Off, Times Off, Longest Off, PID, TID, Name."""
    events = report.context_switches()
    states = switches.thread_states(events, _window(report, events))
    found = switches.thread_summary(states, report.threads())
    return pd.DataFrame(
        {
            "Running (%)": _percent(found["running_share"]),
            "Running (ns)": found["running_ns"],
            "Off (ns)": found["off_ns"],
            "Times Off": found["times_off"],
            "Longest Off (ns)": found["longest_off_ns"],
            "PID": found["pid"],
            "TID": found["tid"],
            "Name": found["name"],
        }
    )


def osrt_classes(report: NsysReport) -> pd.DataFrame:
    """Time in classes of OS calls by thread: Covered, Total, Calls, Longest, Class, PID, TID."""
    calls = os_runtime.classified(report.osrt(), _window(report, report.osrt()))
    found = os_runtime.class_summary(calls)
    return pd.DataFrame(
        {
            "Covered (ns)": found["covered_ns"],
            "Total (ns)": found["total_ns"],
            "Calls": found["calls"],
            "Longest (ns)": found["longest_ns"],
            "Class": found["call_class"],
            "PID": found["pid"],
            "TID": found["tid"],
        }
    )


def osrt_gaps(report: NsysReport) -> pd.DataFrame:
    """OS calls while a GPU was idle: Gap Time (%), Overlap, Calls, Class, Name, PID, TID, Works.

    Threads that work, with ranges of their own or calls of CUDA, come before helpers that may just have had
    nothing to do; within both, the longest overlap first.
    """
    window = report.window()
    calls = os_runtime.classified(report.osrt(), window)
    found = os_runtime.during_gaps(calls, idle_gaps(report.gpu_ops(), window), window)
    found = os_runtime.working_first(found, os_runtime.working_threads(report.nvtx(), report.api()))
    return pd.DataFrame(
        {
            "Gap Time (%)": _percent(found["gap_share"]),
            "Overlap (ns)": found["overlap_ns"],
            "Calls": found["calls"],
            "Class": found["call_class"],
            "Name": found["name"],
            "PID": found["pid"],
            "TID": found["tid"],
            "Works": found["works"].map({True: "yes", False: "no"}).astype("str"),
        }
    )


def iterations(report: NsysReport) -> pd.DataFrame:
    """Iterations, found from ranges, optimizer steps or the period of launches: time, busy time, warm-up."""
    found = iterations_of(report)
    if found is None:
        raise LackingError(report.path, "nothing in the capture repeats; put each step in an NVTX range")
    return found.rows()


def launch_site_sum(report: NsysReport) -> pd.DataFrame:
    """GPU time by launching line: Time (%), GPU Time, Operations, Backward, File, Line, Function."""
    frames = report.python_backtrace_frames()
    sites = launch_sites.launch_sites(
        report.gpu_ops(), report.api(), report.python_backtraces(), frames, report.nvtx()
    )
    found = launch_sites.summary(sites)
    return pd.DataFrame(
        {
            "Time (%)": _percent(found["gpu_share"]),
            "GPU Time (ns)": found["gpu_ns"],
            "Operations": found["operations"],
            "Backward": found["backward"],
            "File": found["file"].replace("", "(no stack)"),
            "Line": found["line"],
            "Function": found["function"],
        }
    )


def sync_ranges(report: NsysReport) -> pd.DataFrame:
    """Waiting by range and call: Time (%), Waited, Calls, In Vain, Call, Waits For, Waits For (%), Range.

    In Vain: calls in which no operation ended that was launched before them: there was nothing to wait for.
    Waits For: the operation on which most of the time was spent.
    """
    found = waits.waits(report.api(), report.nvtx(), report.gpu_ops())
    table = waits.by_range(found[found["start_ns"].between(*report.window())])
    return pd.DataFrame(
        {
            "Time (%)": _percent(table["share"]),
            "Waited (ns)": table["wait_ns"],
            "Calls": table["count"],
            "In Vain": table["in_vain_count"],
            "Call": table["call"],
            "Waits For": table["waits_for"],
            "Waits For (%)": _percent(table["waits_for_share"]),
            "Range": table["label"],
        }
    )


def _window(report: NsysReport, table: pd.DataFrame) -> tuple[int, int]:
    """The measured part; of a capture that has none, from the first of these events to the last."""
    window = report.window()
    if window[0] < window[1]:
        return window
    ends = table["end_ns"] if "end_ns" in table else table["start_ns"] + 1
    return (int(table["start_ns"].min()), int(ends.max())) if len(table) else window


def _python(report: NsysReport) -> pd.DataFrame:
    frames = report.python_frames()
    samples = stacks.during(report.python_samples(), _window(report, report.python_samples()))
    return stacks.fold(frames, stacks.python_labels(frames), samples["sample"])


def _functions(folded: pd.DataFrame) -> pd.DataFrame:
    found = stacks.functions(folded)
    return pd.DataFrame(
        {
            "Self (%)": _percent(found["self_share"]),
            "Total (%)": _percent(found["total_share"]),
            "Self Samples": found["self_count"],
            "Total Samples": found["total_count"],
            "Function": found["label"],
        }
    )


def _percent(share: pd.Series) -> pd.Series:
    rounded: pd.Series = (100 * share.astype("float64")).round(1)
    return rounded
