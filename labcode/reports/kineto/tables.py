"""What was read of a rank in; its tables, as `labcode.reports.kineto.report` documents them, out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.reports.columns import objects
from labcode.reports.frames import frame
from labcode.reports.kineto.names import copy_kinds, memset_kind, short_name
from labcode.reports.kineto.open import RankTrace
from labcode.reports.kineto.ranks import Ranks, column, filled, mapped, triples
from labcode.reports.kineto.schema import FIELDS, MISSING


def kernels(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Kernel executions."""
    raw = run.raw(one, "kernel")
    grids = [triples(one, raw[what]) for what in ("grid", "block")]
    axes = {
        f"{what}_{axis}": values[:, place]
        for what, values in zip(("grid", "block"), grids, strict=True)
        for place, axis in enumerate("xyz")
    }
    shorts = mapped(raw["name"], one.columns.texts, short_name)
    return frame(
        **run.where(one, raw),
        name=objects(raw["name"], one.columns.texts),
        short_name=shorts,
        **axes,
        registers_per_thread=filled(raw["registers"]),
        shared_bytes=filled(raw["shared"]),
        graph_node=column(raw["graph_node"]),
        external_id=column(raw["external"]),
        blocks_per_sm=raw["blocks_per_sm"],
        warps_per_sm=raw["warps_per_sm"],
        occupancy_pct=raw["occupancy"],
        collective=objects(raw["collective"], one.columns.texts),
        message_type=objects(raw["message_type"], one.columns.texts),
        message_in=column(raw["message_in"]),
        message_out=column(raw["message_out"]),
        group_size=column(raw["group_size"]),
        process_group=objects(raw["process_group"], one.columns.texts),
    )


def memcpys(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Copies."""
    raw, texts = run.raw(one, "memcpy"), one.columns.texts
    return frame(
        **run.where(one, raw),
        bytes=filled(raw["bytes"]),
        copy_kind=mapped(raw["name"], texts, lambda name: copy_kinds(name)[0]),
        src_kind=mapped(raw["name"], texts, lambda name: copy_kinds(name)[1]),
        dst_kind=mapped(raw["name"], texts, lambda name: copy_kinds(name)[2]),
        raw_name=objects(raw["name"], texts),
        graph_node=column(raw["graph_node"]),
        external_id=column(raw["external"]),
    )


def memsets(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Memsets."""
    raw = run.raw(one, "memset")
    return frame(
        **run.where(one, raw),
        bytes=filled(raw["bytes"]),
        value=np.zeros(len(raw["start"]), np.int64),
        mem_kind=mapped(raw["name"], one.columns.texts, memset_kind),
        raw_name=objects(raw["name"], one.columns.texts),
        graph_node=column(raw["graph_node"]),
        external_id=column(raw["external"]),
    )


def synchronizations(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Waits as CUPTI saw them."""
    raw = run.raw(one, "sync")
    return frame(
        **run.where(one, raw),
        sync_type=objects(raw["name"], one.columns.texts),
        external_id=column(raw["external"]),
    )


def gpu_annotations(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Annotations on the GPU, without the unit that Kineto adds on each side."""
    raw = run.raw(one, "gpu_annotation")
    wider = 1 if (raw["start"] % 1000).any() or (raw["duration"] % 1000).any() else 1000
    raw = {**raw, "start": raw["start"] + wider, "duration": np.maximum(raw["duration"] - 2 * wider, 0)}
    return frame(
        **run.times(one, raw),
        pid=np.full(len(raw["start"]), run.pid(one)),
        device=run.device(one, raw["pid"]),
        stream=raw["tid"],
        name=objects(raw["name"], one.columns.texts),
        external_id=column(raw["external"]),
    )


def api(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Calls of the runtime and the driver."""
    parts = []
    for kind in ("runtime", "driver"):
        raw = run.raw(one, kind)
        names = objects(raw["name"], one.columns.texts)
        parts.append(
            frame(
                **run.times(one, raw),
                **run.thread(one, raw),
                correlation=filled(raw["correlation"]),
                name=names,
                raw_name=names,
                event_class=np.full(len(names), kind, object),
                return_value=np.zeros(len(names), np.int64),
                external_id=column(raw["external"]),
                order=raw["order"],
            )
        )
    whole = pd.concat(parts, ignore_index=True).sort_values("order", kind="stable", ignore_index=True)
    return whole.drop(columns="order")


def ops(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Operators."""
    raw, texts = run.raw(one, "op"), one.columns.texts
    whole = {"external_id": "external", "sequence": "sequence", "fwd_thread": "fwd_thread"}
    words = ("input_dims", "input_types", "input_strides", "concrete_inputs", "call_stack")
    return frame(
        **run.times(one, raw),
        **run.thread(one, raw),
        name=objects(raw["name"], texts),
        **{name: column(raw[key]) for name, key in whole.items()},
        **{word: objects(raw[word], texts) for word in (*words, "module_hierarchy")},
    )


def marks(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Annotations."""
    raw = run.raw(one, "annotation")
    return frame(
        **run.times(one, raw),
        **run.thread(one, raw),
        name=objects(raw["name"], one.columns.texts),
        external_id=column(raw["external"]),
    )


def python_functions(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Calls of Python functions, as recorded or as `labcode.reports.kineto.sampled` makes them."""
    raw = run.raw(one, "python")
    if not len(raw["start"]) and "samples" in one.metadata:
        return _sampled(run, one)
    return frame(
        **run.times(one, raw),
        **run.thread(one, raw),
        name=objects(raw["name"], one.columns.texts),
        **{key: column(raw[key]) for key in FIELDS["python"]},
    )


def _sampled(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Functions that were seen at some times, of all threads."""
    from labcode.reports.kineto import sampled

    seen = sampled.samples(one.metadata) or sampled.Samples([], [], [])
    parts = [run.raw(one, kind) for kind in ("op", "annotation")]
    start, length, tids = (np.concatenate([p[key] for p in parts]) for key in ("start", "duration", "tid"))
    names: list[str] = []
    found: list[tuple[Any, ...]] = []
    for thread in seen.threads:
        mine = tids == thread.tid
        made = sampled.functions(seen, thread, one.base_ns, start[mine], (start + length)[mine])
        parent = np.where(made.parent >= 0, made.parent + len(names) + 1, MISSING)
        found.append((made.start, made.duration, np.full(len(parent), thread.tid), parent))
        names += made.names
    begun, lasted, tids, parent = (
        np.concatenate([np.empty(0, np.int64), *(one[place] for one in found)]) for place in range(4)
    )
    return frame(
        **run.times(one, {"start": begun, "duration": lasted}),
        pid=np.full(len(names), run.pid(one)),
        tid=tids,
        name=np.array(names, object),
        python_id=np.arange(1, len(names) + 1),
        python_parent=column(parent),
        python_module=column(np.full(len(names), MISSING)),
    )


def memory(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Allocations and frees, by time."""
    raw = run.raw(one, "memory")
    mine = objects(raw["name"], one.columns.texts) == "[memory]"
    raw = {key: values[mine] for key, values in raw.items()}
    times = run.times(one, raw)
    times.pop("end_ns")
    kind = filled(raw["device_type"])
    device = np.where(kind == 0, -1, filled(raw["device_id"]))
    table = frame(
        **times,
        **run.thread(one, raw),
        bytes=filled(raw["memory_bytes"]),
        allocated_bytes=column(raw["allocated"]),
        reserved_bytes=column(raw["reserved"]),
        address=filled(raw["address"]),
        device_type=objects(kind.clip(0, 2), ["cpu", "cuda", "other"]),
        device=np.where(device >= 0, run.device(one, device), -1),
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def overheads(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """What the profiler itself took."""
    raw = run.raw(one, "overhead")
    return frame(
        **run.times(one, raw),
        **run.thread(one, raw),
        name=objects(raw["name"], one.columns.texts),
    )


def flows(run: Ranks, one: RankTrace) -> pd.DataFrame:
    """Ends of arrows."""
    raw = run.raw(one, "flow")
    times = run.times(one, raw)
    times.pop("end_ns")
    return frame(
        **times,
        pid=raw["pid"],
        tid=raw["tid"],
        flow=filled(raw["id"]),
        phase=objects(raw["phase"], one.columns.texts),
        category=objects(raw["category"], one.columns.texts),
    )
