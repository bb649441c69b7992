"""The processes of a report in; what to call each of them out: by rank, role, main thread, GPUs.

A number alone says nothing to a reader. What is known besides is the rank (in traces of PyTorch), the name of
the main thread, which PyTorch sets in the workers of a data loader, and whether the process worked on a GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pandas as pd

# Names that a library gives the main thread of a process, and what such a process is.
ROLES: Mapping[str, str] = {"pt_data_worker": "data worker"}


def process_names(devices: Mapping[int, Collection[int]], threads: pd.DataFrame) -> dict[int, str]:
    """A name for each process: ``data worker (process 858)``, ``python3 on GPU 0 (process 816)``.

    devices: for each process the GPUs it worked on, none for one that did not. GPUs are part of the names
    where some processes used one and others did not. threads: columns pid tid name, and rank in traces.
    """
    apart = len({bool(used) for used in devices.values()}) > 1
    mains = threads[threads["pid"] == threads["tid"]]
    main = dict(zip(mains["pid"].tolist(), mains["name"].astype(str).tolist(), strict=True))
    ranks = rank_numbers(threads)
    names = {}
    for pid, used in devices.items():
        if pid in ranks:
            names[pid] = f"rank {ranks[pid]}"
            continue
        role = ROLES.get(main.get(pid, ""), "")
        known = role or main.get(pid, "")
        where = ""
        if apart and used:
            where = f"on GPU {', '.join(str(device) for device in sorted(used))}"
        elif apart and not role:
            where = "without GPU work"
        if known:
            names[pid] = " ".join(part for part in (known, where, f"(process {pid})") if part)
        else:
            names[pid] = ", ".join(part for part in (f"process {pid}", where) if part)
    return names


def rank_numbers(threads: pd.DataFrame) -> dict[int, int]:
    """The rank of each process, where the report knows of several: one process a rank."""
    if "rank" not in threads or threads["rank"].nunique() < 2:
        return {}
    return {int(p): int(r) for p, r in zip(threads["pid"], threads["rank"], strict=True) if r >= 0}
