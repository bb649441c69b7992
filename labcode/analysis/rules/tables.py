"""The tables that rules share: a report in, tables cut to the window and joined once out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from labcode.analysis.ledger.ledger import ALLOCATING, MOST_GPUS, Ledger, ledgers, rows_on
from labcode.analysis.ledger.lines import NOWHERE, Lines, Place
from labcode.analysis.ledger.replay import Replay
from labcode.analysis.ledger.steady import STEADY, Steady, choose_window, judged, phases
from labcode.analysis.ledger.view import CODE, View, kept
from labcode.analysis.rules.finding import CannotJudgeError, Finding, Severity
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Spans
from labcode.analysis.timeline.iterations import Iterations
from labcode.analysis.timeline.joins import (
    duration_ns,
    in_window,
    launch_rows,
    named_like,
    spans,
)
from labcode.analysis.timeline.nvtx import labels
from labcode.analysis.timeline.overlap import is_communication
from labcode.analysis.timeline.summary import host_memory
from labcode.analysis.timeline.utilization import SYNCHRONIZING, device_busy, idle_gaps
from labcode.reports.columns import Bools, Ints, at_rows, objects, process_keys, remembering, small, unique
from labcode.reports.common import MEASURED
from labcode.reports.frames import codes_of, is_any, rows_of
from labcode.reports.report import CountedReport, GridsReport, SystemReport, TimelineReport
from labcode.show import percent, time_text

if TYPE_CHECKING:
    from labcode.hardware.specs import Spec
    from labcode.reports.nsys.counters import Counter

T = TypeVar("T")

LAUNCHES = r"^(?:cu(?:da)?|hip(?:Ext)?(?:Module)?)Launch(?!HostFunc)"
LOADING = r"^cu(?:LibraryLoad|ModuleLoad|Init|CtxCreate|DevicePrimaryCtx|Link)"  # calls of a start
GRAPH_LAUNCHES = r"^(?:cu(?:da)?|hip)GraphLaunch"
# A thread that wants Python's lock waits for it in this call, at most 5 ms at a time, until it has it.
LOCK_CALL, LOCKED_OUT = "pthread_cond_timedwait", 0.1  # of the window
_USUAL_LAUNCH_NS = 4_000  # where a capture holds no launches: about what one takes under the profiler
_LOSS = 20
_OF_KERNELS = ["name", "short_name", "start_ns", "end_ns", "context", "stream"]
LAYOUT = (
    r"(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|nchw2nhwc|nhwc2nchw|tensorTransform|transposeReadWrite|"
    r"transpose_kernel|permute_kernel|(?<!vectorized_)(?<!unrolled_)elementwise_kernel<.*direct_copy_kernel"
)


class Tables:
    """What rules look at; every table is read and computed when it is first asked for.

    ``window`` is what is judged: the steady state (`labcode.analysis.ledger.steady`), or what somebody chose.
    Tables hold what overlaps the window, cut off at its ends, if not said otherwise.
    """

    def __init__(self, report: TimelineReport, window: str | None = None) -> None:
        self.report = kept(report)
        self.chosen = window

    def let_go(self) -> None:
        """Forget all but what is judged: tables of a long run take much memory. They can be asked again."""
        kept = ("report", "chosen", "judged", "window", "view")
        self.__dict__ = {name: value for name, value in vars(self).items() if name in kept}

    # ---- time

    @cached_property
    def judged(self) -> Steady:
        """What is judged, and the iterations in it."""
        _ = self.view.ops, self.api  # before the window: where they begin and end is known then
        return judged(self.report, self.chosen)

    @cached_property
    def window(self) -> tuple[int, int]:
        """(start, end) in ns; one that somebody chose needs no look at iterations."""
        if self.chosen is None or self.chosen == STEADY:
            return self.judged.window
        return choose_window(self.report, self.chosen)

    @property
    def count(self) -> int:
        """How many iterations are judged; 0 where none were found."""
        return self.judged.count

    @cached_property
    def first(self) -> bool:
        """Whether the only whole iteration may be a first one: code is loaded or memory asked for in it."""
        begins = named_like(self.api["name"], f"{LOADING}|{ALLOCATING}")
        return self.judged.lone and bool((begins & self.is_call).any())

    def told(self, ns: float, of: Ledger | None = None) -> str:
        """A time of the window (or of a ledger) in words: of an iteration, and the share of it."""
        whole, count = (self.width, self.count) if of is None else (of.whole_ns, of.count)
        share = percent(ns / max(whole, 1))
        if not self.count:
            return f"{time_text(ns)} ({share} of the window)"
        return f"{time_text(ns / max(count, 1))} of each iteration ({share})"

    # ---- where the time goes

    @cached_property
    def view(self) -> View:
        """The tables of all of the report, for the ledger."""
        return View(self.report)

    @cached_property
    def ledgers(self) -> list[Ledger]:
        """The ledger of each GPU, that of the worst first; none without work on a GPU."""
        return ledgers(self.view, self.judged, self.lines)

    @property
    def beside(self) -> list[Ledger]:
        """The ledgers that may stand beside that of the worst GPU: without those of other processes, whose
        iterations are not the judged ones.
        """
        return [one for one in self.ledgers if one.repeats == self.ledgers[0].repeats]

    def lateness(self, owner: str) -> float | None:
        """What share of an iteration the other GPUs wait for the worst one, where it alone has so much of an
        owner; None where all have it, or nobody waits.
        """
        if not owner or len(self.ledgers) < 2:
            return None
        others = self.ledgers[1:]
        wait = float(np.median([one.share("late-rank") for one in others]))
        usual = float(np.median([one.each(owner) for one in others]))
        return wait if wait >= 0.02 and usual < 0.5 * self.ledgers[0].each(owner) else None

    @cached_property
    def contended(self) -> tuple[float, Place, int]:
        """Of an iteration, what other threads that run Python may cost the launching one; where they run;
        their samples for a hundred of the launching thread's. (0, …) where there are none.
        """
        host, ledger = self.replay.host, self.ledger
        mine = self.lines.samples(host.pid, host.main, self.window)
        others = self.lines.busy_threads(host.pid, host.tids, self.window, True) if mine else []
        if others and self._locked_out < LOCKED_OUT:
            others = self.lines.busy_threads(host.pid, host.tids, self.window)
        if not others:
            return 0.0, NOWHERE, 0
        _, place, _ = others[0]
        active = min(sum(one[2] for one in others) / mine, 1.0)
        return active * ledger.share("host-code", "launch", "copy-call"), place, round(100 * active)

    @property
    def _locked_out(self) -> float:
        """The share of the window that the launching thread waits as for the lock of Python: in
        ``pthread_cond_timedwait``. 0 where calls of the operating system were not recorded.
        """
        if not isinstance(self.report, SystemReport):
            return 0.0
        host, calls = self.replay.host, self.report.osrt()
        mine = (calls["pid"] == host.pid) & (calls["tid"] == host.main) & (calls["name"] == LOCK_CALL)
        start, end = spans(calls[mine.to_numpy(np.bool_)])
        low, high = (np.array([edge], np.int64) for edge in self.window)
        return float(intervals.covered_within(start, end, low, high)[0]) / self.width

    @cached_property
    def optimizer(self) -> tuple[float, list[tuple[Place, float]]]:
        """Of the launching thread's samples, the share in an update parameter by parameter, and where."""
        host = self.replay.host
        low, high = self.ledger.edges
        return self.lines.naming(host.pid, host.main, low, high, r"torch/optim/.*:_single_tensor_")

    @cached_property
    def lines(self) -> Lines:
        """Where in the program threads were."""
        return Lines(self.report, self.window)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the worst GPU."""
        self.need_busy()
        return self.ledgers[0]

    @cached_property
    def replay(self) -> Replay:
        """The replay of the worst GPU's iterations."""
        return Replay(self.view, self.ledger)

    @cached_property
    def repeated(self) -> tuple[Ints, Ints] | None:
        """Calls of the launching thread in iterations that launch the same number of operations from it: when
        they returned, by time, and the number of each in its iteration; None where most iterations differ.
        """
        ledger, view, host = self.ledger, self.view, self.replay.host
        tid, pid = (self.api[name].to_numpy(np.int64) for name in ("tid", "pid"))
        main = np.append((tid == host.main) & (pid == ledger.pid), False)  # and of no call
        here = (view.ops["device"].to_numpy(np.int64) == ledger.device) & main[view.row]
        mine = small(np.flatnonzero(here))
        begun, calls = (at_rows(values, mine) for values in (spans(view.ops)[0], view.row))
        low, high = (np.searchsorted(begun, edge) for edge in ledger.edges)
        sizes = high - low
        usual = int(np.bincount(np.maximum(sizes, 0)).argmax()) if len(sizes) else 0
        same = np.flatnonzero(sizes == usual)
        if not ledger.repeats or usual < 2 or len(same) < max(ledger.count // 2, 2):
            return None
        inside = small(low[same])[:, None] + np.arange(usual, dtype=np.int32)
        ends = spans(self.api)[1][calls[inside]]
        ends.sort(axis=1)
        if (ends[1:, 0] <= ends[:-1, -1]).any():
            return None
        return ends.ravel(), np.tile(np.arange(usual, dtype=np.int32), len(same))

    @cached_property
    def spec(self) -> Spec | None:
        """What the data sheet promises of the GPU; None where it is not known."""
        from labcode.hardware.specs import find_spec

        names = self.report.gpus()["name"]
        return find_spec(str(names.iloc[0])) if len(names) else None

    @cached_property
    def width(self) -> int:
        """The length of the window in ns, at least 1."""
        return max(self.window[1] - self.window[0], 1)

    def finding(
        self,
        found: bool,
        message: str,
        spent_ns: float,
        name: str,
        evidence: pd.DataFrame | None = None,
        *,
        gain: float | None = None,
        severity: Severity = "",
    ) -> Finding:
        """A finding on time of the window; its bound is the share of the window, unless a gain is given."""
        share = spent_ns / self.width
        bound, rows = share if gain is None else gain, pd.DataFrame() if evidence is None else evidence
        return Finding(found, message, spent_ns, name, self.width, "ns of the window", bound, rows, severity)

    @cached_property
    def marked(self) -> bool:
        """Whether the program says itself what is to be judged."""
        ranges = self.nvtx
        return bool((is_any(labels(ranges), MEASURED) & ranges["end_ns"].notna()).any())

    # ---- the GPU

    @cached_property
    def every_op(self) -> pd.DataFrame:
        """`NsysReport.gpu_ops`, all of it."""
        return self.report.gpu_ops()

    @cached_property
    def ops(self) -> pd.DataFrame:
        """The GPU operations within the window, by start time."""
        return self.some(np.ones(len(self.op_rows), np.bool_))

    def some(self, chosen: Bools, *columns: str) -> pd.DataFrame:
        """``ops[chosen]`` (or these columns and the times), without the memory of a table of all."""
        rows = np.flatnonzero(chosen)
        start, end = (times[rows] for times in spans(self.work))
        ops = self.view.ops[list(columns)] if columns else self.view.ops
        ops = rows_of(ops, self.op_rows[rows]).assign(start_ns=start, end_ns=end)
        return ops.set_axis(pd.RangeIndex(len(ops)) if chosen.all() else rows, axis=0)

    @cached_property
    def work(self) -> pd.DataFrame:
        """Of ``ops`` device, start_ns and end_ns: what most rules ask for."""
        start, end = spans(self.view.ops)
        low, high = self.window
        rows = self.op_rows
        device = self.view.ops["device"].to_numpy(np.int64)
        start, end, device = (at_rows(values, rows) for values in (start, end, device))
        if len(rows) and (int(start.min()) < low or int(end.max()) > high):
            start, end = np.maximum(start, low), np.minimum(end, high)
        times = {"start_ns": start, "end_ns": end}
        return pd.DataFrame({"device": device} | times, copy=False)

    @cached_property
    def op_rows(self) -> Ints:
        """For each of ``ops`` its place in the view's."""
        start, end = spans(self.view.ops)
        low, high = self.window
        return small(np.flatnonzero(np.minimum(end, high) > np.maximum(start, low)))

    @cached_property
    def is_kernel(self) -> Bools:
        """Which of ``ops`` are kernels."""
        return at_rows(is_any(self.view.ops["kind"], "kernel"), self.op_rows)

    @cached_property
    def computes(self) -> Bools:
        """Which of ``ops`` are kernels or whole graphs."""
        return is_any(self.view.ops["kind"], "kernel", "graph")[self.op_rows]

    @cached_property
    def talks(self) -> Bools:
        """Which of ``ops`` are kernels between GPUs."""
        return np.asarray(is_communication(self.view.ops).to_numpy()[self.op_rows], np.bool_)

    @cached_property
    def by_device(self) -> dict[int, Ints]:
        """For each GPU the places of its operations in ``ops``; of very many, those of the busiest."""
        devices, code = unique(self.work["device"].to_numpy(np.int64))
        places = list(enumerate(devices.tolist()))
        if len(places) > MOST_GPUS:
            did = np.bincount(code, weights=duration_ns(self.work), minlength=len(places))
            places = [places[place] for place in sorted(np.argsort(-did, kind="stable")[:MOST_GPUS].tolist())]
        return {device: small(np.flatnonzero(code == place)) for place, device in places}

    def spans_of(self, device: int, some: Bools | None = None) -> Spans:
        """Start and end of the operations of a GPU, or of some of them."""
        rows = self.by_device.get(device, np.empty(0, np.int64))
        rows = rows if some is None else rows[np.flatnonzero(some[rows])]
        start, end = spans(self.work)
        return at_rows(start, rows), at_rows(end, rows)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """The kernels among ``ops``."""
        return self.some(self.is_kernel)

    @cached_property
    def memcpys(self) -> pd.DataFrame:
        """`NsysReport.memcpys` within the window."""
        return in_window(self.report.memcpys(), self.window).reset_index(drop=True)

    @cached_property
    def copies(self) -> pd.DataFrame:
        """``memcpys`` with host_memory, row (position in ``api`` of the call, or -1) and call (its name)."""
        self.need_ops()
        return self.called(self.memcpys).assign(host_memory=host_memory(self.memcpys))

    def called(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Operations with row (position in ``api`` of the call, or -1) and call (its name)."""
        row = launch_rows(ops, self.api)
        codes, names = codes_of(self.api["name"])
        with remembering():
            called = objects(np.append(codes, -1)[row], names.tolist())  # row -1 is the empty name
        return ops.assign(row=row, call=pd.Series(called, dtype="str", index=ops.index, copy=False))

    @cached_property
    def busy(self) -> pd.DataFrame:
        """`device_busy` in the window: a row for each GPU of ``by_device``."""
        return device_busy({device: self.spans_of(device) for device in self.by_device}, self.window)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """`idle_gaps` in the window, with what ends each.

        Adds: op (position in ``ops`` of the operation that ends the gap), call (position in ``api``
        of the call that launched it), both -1 where there is none; queue_ns (from the return of
        that call to the start of the operation, 0 where it began earlier); alone (whether the call
        launched only this operation).
        """
        gaps = idle_gaps({device: self.spans_of(device) for device in self.by_device}, self.window)
        op = np.full(len(gaps), -1, np.int64)
        starts = self.work["start_ns"].to_numpy()
        for device, mine in self.by_device.items():
            here = np.flatnonzero(gaps["device"].to_numpy() == device)
            place = np.searchsorted(starts[mine], gaps["end_ns"].to_numpy()[here], "left")
            some = place < len(mine)
            op[here[some]] = mine[place[some]]
        op = small(op)
        call = np.where(op >= 0, self.launch_row[op], np.int32(-1)) if len(self.work) else op
        ends = self.api["end_ns"].to_numpy()
        queue = np.zeros(len(gaps), np.int64)
        alone = np.zeros(len(gaps), np.bool_)
        known = np.flatnonzero(call >= 0)
        queue[known] = np.maximum(gaps["end_ns"].to_numpy()[known] - ends[call[known]], 0)
        alone[known] = self.ops_in_call[call[known]] == 1
        return gaps.assign(op=op, call=call, queue_ns=queue, alone=alone)

    # ---- the CPU

    @cached_property
    def api(self) -> pd.DataFrame:
        """`NsysReport.api`, all of it: a call before the window may launch into it."""
        return self.report.api()

    @cached_property
    def calls(self) -> pd.DataFrame:
        """The calls within the window; their index is the position in ``api``."""
        return in_window(self.api, self.window)

    @cached_property
    def is_call(self) -> Bools:
        """Which rows of ``api`` are among ``calls``."""
        start, end = spans(self.api)
        return np.asarray(np.minimum(end, self.window[1]) > np.maximum(start, self.window[0]), np.bool_)

    def calls_like(self, pattern: str) -> pd.DataFrame:
        """Those of ``calls`` whose names match."""
        return in_window(rows_of(self.api, self.is_call & named_like(self.api["name"], pattern)), self.window)

    @cached_property
    def nvtx(self) -> pd.DataFrame:
        """`NsysReport.nvtx`, all of it."""
        return self.report.nvtx()

    @cached_property
    def launch_row(self) -> Ints:
        """For each of ``ops`` the position in ``api`` of its launch call, -1 for none; within its process."""
        return at_rows(self.view.row, self.op_rows)

    @cached_property
    def ops_in_call(self) -> Ints:
        """For each row of ``api`` how many operations of the window it launched."""
        return small(np.bincount(self.launch_row[self.launch_row >= 0], minlength=len(self.api)))

    @cached_property
    def launch_ns(self) -> float:
        """What launching a kernel costs the CPU: the median duration of launch calls."""
        launches = self.is_call & named_like(self.api["name"], LAUNCHES)
        start, end = (times[launches] for times in spans(self.api))
        if not len(start):
            return float(_USUAL_LAUNCH_NS)
        spent = np.minimum(end, self.window[1]) - np.maximum(start, self.window[0])
        return float(np.median(spent))

    @cached_property
    def patience_ns(self) -> int:
        """How long a gap may be and still be the launches' own pace: five launch calls, 10 to 50 µs.

        It follows the capture, for a launch from Python under a profiler takes several times one from C++.
        """
        return int(min(max(5 * self.launch_ns, 10_000), 50_000))

    @cached_property
    def waits(self) -> pd.DataFrame:
        """The synchronizing calls within the window, and copies to pageable memory: they wait, too."""
        view = self.view
        outward = view.pageable & (view.owner == CODE["copy-out"]) & (view.row >= 0)
        waits = named_like(self.api["name"], SYNCHRONIZING)
        waits[view.row[outward]] = True
        return in_window(rows_of(self.api, waits & self.is_call), self.window)

    def remarks(self) -> Sequence[str]:
        """What there is to say of the report before it is judged, a line each."""
        return ()

    @property
    def has_counters(self) -> bool:
        """Whether the GPU's own counters were sampled."""
        return isinstance(self.report, CountedReport) and self.report.has_counters()

    @cached_property
    def counters(self) -> list[Counter]:
        """The GPU's own counters in the window; none where they were not sampled."""
        found = self.report.counters() if isinstance(self.report, CountedReport) else []
        return [counter.within(self.window) for counter in found]

    def relaid(self) -> Bools:
        """For each operation of the view whether it only changes the layout of a tensor."""
        return named_like(self.view.ops["name"], LAYOUT) & is_any(self.view.ops["kind"], "kernel")

    def relaid_evidence(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Such operations together."""
        spent = ops.assign(duration_ns=duration_ns(ops)).groupby("short_name")["duration_ns"]
        table = spent.agg(["size", "sum"]).reset_index()
        return top(
            table.rename(columns={"short_name": "name", "size": "count", "sum": "total_ns"}), "total_ns"
        )

    # ---- missing data

    def how(self, option: str) -> str:
        """How to record what an option of nsys records."""
        return f"record with {option}"

    def need_ops(self) -> None:
        """`CannotJudgeError` unless the window holds GPU operations."""
        if len(self.op_rows) == 0:
            raise CannotJudgeError(f"there are no GPU operations in the capture ({self.how('--trace=cuda')})")

    def need_busy(self) -> None:
        """`CannotJudgeError` unless it is known when the GPU was busy.

        Graph launches of which the capture holds neither the kernels nor the whole are time of the GPU that
        nobody recorded; to call it idle would be wrong. One in twenty may be lost, at the end of a capture.
        """
        self.need_ops()
        lost = len(self.lost_graph_launches)
        if lost and lost * _LOSS >= len(self.graph_launches):
            raise CannotJudgeError(
                f"{lost:,} of {len(self.graph_launches):,} graph launches left no trace on the GPU, so its "
                f"busy time is unknown ({self.how('--cuda-graph-trace=node')})"
            )

    def need_api(self) -> None:
        """`CannotJudgeError` unless the window holds CUDA API calls."""
        if not self.is_call.any():
            raise CannotJudgeError(f"there are no CUDA API calls in the capture ({self.how('--trace=cuda')})")

    def need_kernels(self) -> None:
        """`CannotJudgeError` unless kernels were traced one by one."""
        if not self.is_kernel.any():
            graphs = bool(self.computes.any()) or len(self.lost_graph_launches) > 0
            raise CannotJudgeError(
                f"the kernels ran inside graphs and were not traced ({self.how('--cuda-graph-trace=node')})"
                if graphs
                else f"there are no kernels in the capture ({self.how('--trace=cuda')})"
            )

    @cached_property
    def graph_launches(self) -> pd.DataFrame:
        """Calls that launch a graph, a driver call inside a runtime call left out; lost: it has no operation.

        Neither the whole graph nor one of its nodes is in the capture then, whichever of the nested calls the
        operations name.
        """
        calls = self.calls_like(GRAPH_LAUNCHES)
        if not len(calls):
            return calls.assign(lost=False)
        mine, theirs = process_keys(
            *(calls[c].to_numpy() for c in ("pid", "correlation")),
            *(self.every_op[c].to_numpy() for c in ("pid", "correlation")),
        )
        traced = np.isin(mine, theirs)
        outer = np.arange(len(calls))
        for rows in calls.groupby(["pid", "tid"]).indices.values():
            around = intervals.parents(*spans(calls.iloc[rows]))
            outer[rows] = np.where(around >= 0, rows[around], rows)
        with_ops = np.bincount(outer[traced], minlength=len(calls)) > 0
        outermost: pd.DataFrame = calls.assign(lost=~with_ops)[outer == np.arange(len(calls))]
        return outermost

    @cached_property
    def lost_graph_launches(self) -> pd.DataFrame:
        """The graph launches that left no trace on the GPU."""
        return self.graph_launches[self.graph_launches["lost"]]

    @cached_property
    def phases(self) -> pd.DataFrame:
        """What the capture consists of besides what is judged: `labcode.analysis.ledger.steady.phases`."""
        return phases(self.report, self.judged)

    @cached_property
    def worst_kernels(self) -> tuple[pd.DataFrame, Ints]:
        """The kernels of the worst GPU in its ledger's window, and the owner of each."""
        ledger, ops = self.ledger, self.view.ops
        rows = rows_on(self.view, ledger.device, ledger.window)
        rows = rows[np.flatnonzero(is_any(ops["kind"], "kernel")[rows])]
        return rows_of(ops[_OF_KERNELS], rows), self.view.owner[rows]

    @cached_property
    def grids(self) -> tuple[Ints, Ints]:
        """Blocks and threads in a block for each operation of the view; 0 for what is no kernel.

        Both are empty where the capture does not tell them for all kernels.
        """
        mine = np.flatnonzero(is_any(self.view.ops["kind"], "kernel"))
        start, *sizes = self.report.grids() if isinstance(self.report, GridsReport) else _grids(self.report)
        if len(start) != len(mine):
            return mine[:0], mine[:0]
        order = np.argsort(start, kind="stable")
        blocks, threads = (np.zeros(len(self.view.ops), size.dtype) for size in sizes)
        blocks[mine], threads[mine] = (size[order] for size in sizes)
        return blocks, threads

    @cached_property
    def iterations(self) -> Iterations | None:
        """The iterations of the report, where something in it repeats."""
        return self.judged.found

    # ---- bounds

    def idle_bound(self, starts: Ints, ends: Ints) -> float:
        """At most what share of the window is saved when idle stretches vanish; they may be of several GPUs.

        Two bounds, the smaller counts. Outside the stretches nothing changes, so no more is saved than the
        time in which some GPU is in one. And each GPU still has its own work, so no more is saved than the
        GPU with the most work is without it. Kernels of NCCL are no work here, for they run while they wait.
        """
        return min(intervals.total(starts, ends), self.width - self._most_work_ns) / self.width

    @cached_property
    def _most_work_ns(self) -> int:
        """How long the GPU with the most work of its own is busy with it."""
        if not self.talks.any():
            return int(self.busy["busy_ns"].max()) if len(self.busy) else 0
        own = rows_of(self.work, ~self.talks)
        return int(device_busy(own, self.window)["busy_ns"].max()) if len(own) else 0


def _grids(report: TimelineReport) -> tuple[Ints, Ints, Ints]:
    """Start, blocks and threads in a block of each kernel."""
    kernels = report.kernels()
    blocks, threads = (
        np.prod([kernels[f"{what}_{axis}"].to_numpy(np.int64) for axis in "xyz"], axis=0)
        for what in ("grid", "block")
    )
    return kernels["start_ns"].to_numpy(np.int64), blocks, threads


def top(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """A table with the largest ``by`` first."""
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)
