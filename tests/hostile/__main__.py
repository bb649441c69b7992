"""The whole campaign, or the cases that are named: faults out, and 1 where there is one."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.hostile.campaign import PAIRS
from tests.hostile.judge import Ended


def ready() -> None:
    """Import what commands import late, so that each case finds it there."""
    import importlib
    import pkgutil

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import labcode

    for module in pkgutil.walk_packages(labcode.__path__, "labcode."):
        part = module.name.split(".")[1]
        if part in (
            "analysis",
            "figures",
            "reports",
            "cli",
            "show",
            "store",
            "doctor",
            "capture",
            "kit",
            "grading",
        ):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError:  # torch, CuPy, NVML: none is needed here
                continue
    import bokeh.resources  # noqa: F401
    import matplotlib.backends.backend_svg  # noqa: F401

    gc.collect()
    gc.freeze()  # else a case's collector touches, and so copies, all that it shares with this process


def tried(where: tuple[int, int]) -> tuple[str, Ended]:
    """One case: the number of its pair and its own."""
    pair = PAIRS[where[0]]
    return f"{pair.name}/{where[1]}", pair.case(where[1])


def run_all(cases: Sequence[tuple[int, int]], processes: int) -> dict[str, Ended]:
    """All cases, some at a time; what is wrong is printed as it is found."""
    found = {}
    ready()
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        for name, ended in pool.map(tried, cases, chunksize=4):
            found[name] = ended
            if ended.faults:
                print(f"{name}: {'; '.join(ended.faults)}", flush=True)
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="FORMAT:COMMAND/NUMBER, or how such begin")
    parser.add_argument("--per", type=int, default=0, help="at most so many cases a pair")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if any("/" in name for name in given.names):
        ready()
        for name in given.names:
            pair = next(pair for pair in PAIRS if pair.name == name.split("/")[0])
            ended = pair.case(int(name.split("/")[1]))
            print(f"{name}: {ended.code}, {ended.seconds:.1f} s, {ended.grown >> 20} MiB: {ended.faults}")
            print(ended.stdout[-3000:], ended.stderr[-4000:], sep="\n----\n")
        return 0
    cases = [
        (at, number)
        for at, pair in enumerate(PAIRS)
        if not given.names or any(pair.name.startswith(name) for name in given.names)
        for number in range(min(pair.count, given.per or pair.count))
    ]
    began = time.monotonic()
    found = run_all(cases, given.j)
    wrong = sum(bool(ended.faults) for ended in found.values())
    cpu = sum(ended.seconds for ended in found.values())
    refused = sum(ended.code == 2 for ended in found.values())
    print(
        f"{len(found)} cases, {refused} refused, {wrong} with faults; {time.monotonic() - began:.0f} s, "
        f"{cpu:.0f} s of the processor, {max(ended.grown for ended in found.values()) >> 20} MiB at most"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
