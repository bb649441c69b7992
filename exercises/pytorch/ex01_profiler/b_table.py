"""Exercise pytorch-ex01, part b: the profiler's table, made from a trace.

Two tables come in. Times are in ns; rows are in no particular order. An event may begin or end together with
the one around it.

    events    id, tid, name, start_ns, end_ns: operators and ranges on the CPU. One lies inside another when
              it is on the same thread and lies wholly within its time.
    kernels   event, stream, start_ns, end_ns: what ran on the one GPU, and the id of the event that launched
              it (the innermost one)

`summary` gives a row for each name, as `prof.key_averages()` does, as a dictionary from names to five
numbers, sums over all events of that name:

    calls          how many
    cpu_self       their time without what lies directly inside of them (and with it all that is in there)
    cpu_total      their time
    device_self    durations of the kernels that they launched themselves
    device_total   the same, with the kernels of all events inside of them

An operator that calls one of its own name counts with both: that is how totals come to exceed the wall time.
The table on the page differs in two things: it takes the calls of CUDA off `cpu_self`, and it counts copies
on the GPU beside kernels. Here neither is among the tables that come in.

`busy_ns` is the time in which the GPU did anything at all: of kernels that run side by side, once.

A worked example:

    id  tid  name          start_ns  end_ns            event  stream  start_ns  end_ns
     1    7  aten::linear         0     100                2       7        60     160
     2    7  aten::mm            10      60                3       7       160     180
     3    7  aten::add_          70      90                4      13       150     250
     4    9  aten::mm            20      50

    summary(events, kernels)  ->  {"aten::linear": (1, 30, 100, 0, 120),
                                   "aten::mm":     (2, 80,  80, 200, 200),
                                   "aten::add_":   (1, 20,  20, 20, 20)}
    busy_ns(kernels)          ->  190

Grade it:         labcode exercises pytorch-ex01b        (or: nox -s exercises -- pytorch-ex01b)
Get a hint:       labcode exercises pytorch-ex01b --hint
Try it yourself:  python exercises/pytorch/ex01_profiler/b_table.py     (runs on a capture of the book)
"""

import pandas as pd


def summary(events: pd.DataFrame, kernels: pd.DataFrame) -> dict[str, tuple[int, int, int, int, int]]:
    """Calls, CPU self, CPU total, device self and device total of each name."""
    raise NotImplementedError("find each event's parent, then add up")


def busy_ns(kernels: pd.DataFrame) -> int:
    """The time in which at least one kernel runs."""
    raise NotImplementedError("the length of the union")


if __name__ == "__main__":
    from labcode.reports.kineto.report import open_trace
    from labcode.store import load_set

    trace = open_trace(load_set().path_of("torch_profiler", "baseline", ".trace.json.gz"))
    called = trace.ops().rename(columns={"external_id": "id"})
    ran = trace.kernels().rename(columns={"external_id": "event"})
    table = summary(called, ran)
    for name, row in sorted(table.items(), key=lambda item: -item[1][3])[:10]:
        print(f"{name:40}", *(f"{number:>12,}" for number in row))
    print(f"sum of device total {sum(row[4] for row in table.values()):,}, busy {busy_ns(ran):,}")
