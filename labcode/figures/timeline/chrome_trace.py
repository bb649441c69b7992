"""A report in; a trace in Chrome's JSON format, which Perfetto opens, out.

Processes, threads, GPUs and streams are named tracks in a fixed order; arrows lead from each call to the
first operation that it launched. Beside them stand the queue of each stream and the bandwidth of copies, as
counters, and the critical path (`labcode.figures.timeline.overlay`). Times are microseconds on the capture's
clock, with three decimals, so that no nanosecond is lost. Written in pieces: what is held in memory is the
report's tables, not the text.

The GPU's own counters, where they were sampled, are counter tracks of a group of their own for each GPU.

The format: “Trace Event Format” (Google, 2016), of which this uses complete (X), instant (i), flow (s, f),
counter (C) and metadata (M) events.
"""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from labcode.analysis.timeline.intervals import Window
from labcode.figures.timeline.events import Arrows, Events, Group, Samples, Slices, in_pieces
from labcode.figures.timeline.rows import Report


def write_chrome_trace(report: Report, output: TextIO, *, window: Window | None = None) -> int:
    """Write the events that overlap the window, by default all; returns how many there were."""
    events = Events(report, window)
    output.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    for layer in events.layers():
        for slices in in_pieces(layer):
            _write(output, _complete(slices))
    for arrows in events.arrows():
        _write(output, _flows(arrows))
    for samples in events.samples():
        _write(output, _values(samples))
    lines = [line for group in events.groups() for line in _metadata(group)]
    output.write(",\n".join(lines or [_named("process_name", 0, 0, "name", "")]))
    output.write("\n]}\n")
    return events.count


def _write(output: TextIO, lines: list[str]) -> None:
    if lines:
        output.write(",\n".join(lines) + ",\n")


def _metadata(group: Group) -> Iterator[str]:
    """Names and places of a group and its tracks."""
    yield _named("process_name", group.number, 0, "name", group.name)
    yield _named("process_sort_index", group.number, 0, "sort_index", group.place)
    for label in group.labels:
        yield _named("process_labels", group.number, 0, "labels", label)
    for number, name, place in group.tracks:
        yield _named("thread_name", group.number, number, "name", name)
        if place is not None:
            yield _named("thread_sort_index", group.number, number, "sort_index", place)


def _named(what: str, pid: int, tid: int, key: str, value: str | int) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}})


def _complete(slices: Slices) -> list[str]:
    """Slices and moments as JSON texts."""
    names = _texts(slices.names)
    columns = [_members(key, values) for key, values in slices.arguments]
    given = (",".join(filter(None, members)) for members in zip(*columns, strict=True))
    category = json.dumps(slices.category)
    return [
        f'{{"ph":"X","name":{name},"cat":{category},"pid":{pid},"tid":{tid},'
        f'"ts":{microseconds(start)},"dur":{microseconds(end - start)},"args":{{{members}}}}}'
        if end != -1
        else f'{{"ph":"i","s":"t","name":{name},"cat":{category},"pid":{pid},"tid":{tid},'
        f'"ts":{microseconds(start)},"args":{{{members}}}}}'
        for name, pid, tid, start, end, members in zip(
            names, slices.groups, slices.tracks, slices.starts, slices.ends, given, strict=True
        )
    ]


def _members(key: str, values: list[Any]) -> list[str]:
    """An argument of each event as a member of a JSON object, '' where it has none."""
    head = json.dumps(key)
    if values and isinstance(values[0], str):
        return [f"{head}:{text}" for text in _texts(values)]
    return ["" if value is None else f"{head}:{_number(value)}" for value in values]


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _texts(texts: list[str]) -> list[str]:
    """Texts as JSON, each distinct one written once."""
    written = {text: json.dumps(text) for text in set(texts)}
    return [written[text] for text in texts]


def _flows(arrows: Arrows) -> list[str]:
    rows = zip(arrows.numbers.tolist(), *(c.tolist() for c in (*arrows.begins, *arrows.ends)), strict=True)
    name = json.dumps(arrows.category)
    return [
        f'{{"ph":"s","name":{name},"cat":{name},"id":{number},"pid":{p},"tid":{t},"ts":{microseconds(at)}}},\n'
        f'{{"ph":"f","bp":"e","name":{name},"cat":{name},"id":{number},"pid":{q},"tid":{u},'
        f'"ts":{microseconds(to)}}}'
        for number, p, t, at, q, u, to in rows
    ]


def _values(samples: Samples) -> list[str]:
    head = f'{{"ph":"C","name":{json.dumps(samples.name)},"pid":{samples.group},"tid":0,"ts":'
    unit = json.dumps(samples.unit)
    pairs = zip(samples.times, samples.values, strict=True)
    return [f'{head}{microseconds(time)},"args":{{{unit}:{value}}}}}' for time, value in pairs]


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals, exactly."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
