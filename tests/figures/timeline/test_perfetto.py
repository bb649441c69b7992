"""The trace in Perfetto's format, read by a decoder of protocol buffers that knows nothing of its writer."""

import io
import json
import struct

from labcode.figures.timeline.chrome_trace import write_chrome_trace
from labcode.figures.timeline.events import Events
from labcode.figures.timeline.perfetto import _Packets, write_pftrace
from labcode.reports.nsys.report import open_report
from tests.support.exports import call, kernel, make_export, mark, memcpy, push_pop, start_end, thread

HOSTILE = 'evil</script>"quoted"\\ \n new line, ünïcode ✓ \u2028'


def fields(data):
    """The fields of a message by number; each a list, for any may be repeated."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        match key & 7:
            case 0:
                value = varint()
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                size = varint()
                value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def one(message, number, default=None):
    (value,) = message.get(number, [default])
    return value


def decoded(data):
    """Tracks by number: name, parent, rank, counter? Events: time, kind, track, name, arguments, arrows."""
    tracks, events, names = {}, [], {}
    for packet in map(fields, fields(data)[1]):
        assert one(packet, 10) == 1
        for interned in map(fields, packet.get(12, [])):
            for number in (1, 2, 3):
                for entry in map(fields, interned.get(number, [])):
                    names[number, one(entry, 1)] = one(entry, 2).decode()
        if 60 in packet:
            track = fields(one(packet, 60))
            tracks[one(track, 1)] = (one(track, 2).decode(), one(track, 5), one(track, 12, 0), 8 in track)
        if 11 in packet:
            event = fields(one(packet, 11))
            assert one(event, 11) in tracks
            arguments = {}
            for argument in map(fields, event.get(4, [])):
                ((number, (value,)),) = ((key, values) for key, values in argument.items() if key != 1)
                text = value.decode() if number == 6 else value
                arguments[names[3, one(argument, 1)]] = struct.unpack("<d", value)[0] if number == 5 else text
            arrows = [("from", value) for value in event.get(47, [])]
            arrows += [("to", value) for value in event.get(48, [])]
            name = names.get((2, one(event, 10)))
            events.append((one(packet, 8), one(event, 9), one(event, 11), name, arguments, arrows))
    return tracks, events


def written(tmp_path, **rows):
    output, text = io.BytesIO(), io.StringIO()
    with open_report(make_export(tmp_path / "a.sqlite", **rows)) as report:
        count = write_pftrace(report, output)
        assert write_chrome_trace(report, text) == count
    return (*decoded(output.getvalue()), json.loads(text.getvalue())["traceEvents"])


def test_slices_begin_and_end_where_those_of_the_other_trace_do(tmp_path):
    rows = {
        "kernels": [
            kernel(1_000_000_123, 1_000_004_125, "k<float>(int)", correlation=3, registers=40),
            kernel(1_000_005_000, 1_000_005_000, HOSTILE, correlation=4),
        ],
        "memcpys": [memcpy(1_000_000_500, 1_000_002_000, 4096)],
        "api": [call(999_999_000, 999_999_900, "cudaLaunchKernel", correlation=3)],
        "nvtx": [
            push_pop(10, 900, "outer"),
            push_pop(20, 900, "inner"),
            mark(30, HOSTILE),
        ],
    }
    tracks, events, other = written(tmp_path, **rows)
    made, stacks = [], {}
    for at, kind, track, name, _, _ in events:
        if kind == 1:
            stacks.setdefault(track, []).append((at, name))
        elif kind == 2:
            began, named = stacks[track].pop()
            made.append((began, at, named))
        elif kind == 3:
            made.append((at, None, name))
    assert not any(stacks.values())

    def ns(value):
        return round(value * 1000)

    assert sorted(map(str, made)) == sorted(
        str((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]) if e["ph"] == "X" else None, e["name"]))
        for e in other
        if e["ph"] in "Xi"
    )
    (launched,) = [event for event in events if event[3] == "k" and "grid" in event[4]]
    assert launched[4]["registers per thread"] == 40 and launched[4]["kernel"] == "k<float>(int)"
    (arrow,) = [number for end, number in launched[5] if end == "to"][:1]
    (launch,) = [event for event in events if ("from", arrow) in event[5]]
    assert launch[3] == "cudaLaunchKernel"
    stream, parent, _, _ = tracks[launched[2]]
    assert stream.startswith("stream") and tracks[parent][0] == "GPU 0"
    counters = {name for name, _, _, counts in tracks.values() if counts}
    assert any("bandwidth" in name for name in counters)
    values = [event for event in events if event[1] == 4]
    assert len(values) == sum(len(e["args"]) for e in other if e["ph"] == "C")


def test_slices_that_do_not_nest_lie_on_rows_of_their_own(tmp_path):
    spans = [("a", 0, 10), ("b", 2, 8), ("c", 5, 12), ("d", 10, 11), ("e", 11, 20)]
    tracks, events, _ = written(tmp_path, api=[call(begin, end, name) for name, begin, end in spans])
    rows = {number: name for number, (name, *_) in tracks.items() if name.startswith("CUDA API")}
    begun = {name: [e[3] for e in events if e[1] == 1 and e[2] == number] for number, name in rows.items()}
    assert begun == {"CUDA API, main thread": ["a", "b", "d", "e"], "CUDA API, main thread, row 2": ["c"]}
    for number in rows:
        mine = [event for event in events if event[2] == number]
        assert [event[0] for event in mine] == sorted(event[0] for event in mine)
        depths = [sum(1 if kind == 1 else -1 for _, kind, *_ in mine[: n + 1]) for n in range(len(mine))]
        assert min(depths) == 0 and depths[-1] == 0


def test_what_follows_on_a_stream_begins_after_what_was_before_has_ended(tmp_path):
    """Kernels and copies share a stream; of those that meet, the end comes first in the file."""
    rows = {"memcpys": [memcpy(100, 200, 8), memcpy(300, 400, 8)], "kernels": [kernel(200, 300, "k()")]}
    _, events, _ = written(tmp_path, **rows)
    mine = [(at, kind) for at, kind, track, *_ in events if kind in (1, 2) and track == events[0][2]]
    assert mine == [(100, 1), (200, 2), (200, 1), (300, 2), (300, 1), (400, 2)]


def test_no_more_is_held_of_a_long_trace_than_its_tables(tmp_path):
    """What writing allocates beside the events' own tables does not grow with the text."""
    peaks = []
    for count in (500, 4000):
        calls = [call(10 * i, 10 * i + 5, f"call {i % 7}", correlation=i) for i in range(count)]
        with open_report(make_export(tmp_path / f"{count}.sqlite", api=calls)) as report:
            packets = _Packets(Events(report))
            size = sum(map(len, packets.all()))
            assert size > 20 * count
            peaks.append(sum(len(row) for rows in packets._open.values() for row in rows))
            assert len(packets._numbers) < 20
    assert peaks == [0, 0]


def test_a_long_trace_of_ranges_keeps_its_tracks_names(tmp_path):
    rows = {
        "nvtx": [start_end(100, 900, "a"), start_end(500, 1500, "b"), push_pop(0, 2000, "step")],
        "threads": [thread(100, 100, HOSTILE)],
    }
    tracks, _, other = written(tmp_path, **rows)
    named = {e["args"]["name"] for e in other if e["name"] == "thread_name"}
    assert named <= {name for name, _, _, _ in tracks.values()}
