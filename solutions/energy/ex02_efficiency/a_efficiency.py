"""Exercise energy-ex02, part a: the best run, and the best clock.

    runs   name, seconds, energy_j, flop: runs that all do the same work, a row each

`per_joule(runs)`: {name: TFLOP for each joule}.

`winners(runs)`: {'time': name, 'energy': name, 'product': name}: the run of the least time, of the least
energy, of the least energy times time. Of equal ones the first in the table.

`against(runs, baseline)`: {name: (speedup, energy)} of all runs but the one named: how many times faster
than it, and its energy as a multiple of the baseline's (below 1 is cheaper).

`best_clock(clocks_mhz, cycles, memory_s, base_w, cube_w, idle_w, deadline_s)`: a model of a GPU whose clock
can be chosen. The work takes cycles / clock, and memory_s more that no clock changes. While it works the GPU
draws base_w + cube_w · (clock / highest clock)³, then idle_w until the deadline. Give (clock in MHz, joules
until the deadline) for the clock that is in time (at the deadline is in time) with the fewest joules, of
equal ones the first in the list; None if none is in time.

A worked example: clocks 1000 and 2000 MHz, 1e9 cycles, memory_s 0, base_w 100, cube_w 400, idle_w 50,
deadline 2 s:

    at 2000 MHz  0.5 s · 500 W + 1.5 s · 50 W = 325 J
    at 1000 MHz  1 s · 150 W + 1 s · 50 W = 200 J        -> (1000, 200.0)

Grade it:         labcode exercises energy-ex02a        (or: nox -s exercises -- energy-ex02a)
Get a hint:       labcode exercises energy-ex02a --hint
"""

import pandas as pd


def per_joule(runs: pd.DataFrame) -> dict[str, float]:
    """TFLOP for each joule."""
    # [solution]
    return dict(zip(runs["name"], runs["flop"] / runs["energy_j"] / 1e12, strict=True))
    # [starter]
    # raise NotImplementedError("work by energy")
    # [end]


def winners(runs: pd.DataFrame) -> dict[str, str]:
    """The run of the least time, of the least energy, of the least product of both."""
    # [solution]
    by = {
        "time": runs["seconds"],
        "energy": runs["energy_j"],
        "product": runs["energy_j"] * runs["seconds"],
    }
    return {what: str(runs["name"].iloc[values.to_numpy().argmin()]) for what, values in by.items()}
    # [starter]
    # raise NotImplementedError("three columns, the least of each")
    # [end]


def against(runs: pd.DataFrame, baseline: str) -> dict[str, tuple[float, float]]:
    """Speedup and energy ratio of each run to one of them."""
    # [solution]
    table = runs.set_index("name")
    base = table.loc[baseline]
    others = table.drop(index=baseline)
    speed, energy = base["seconds"] / others["seconds"], others["energy_j"] / base["energy_j"]
    return {str(name): (float(speed[name]), float(energy[name])) for name in others.index}
    # [starter]
    # raise NotImplementedError("two ratios for each other run")
    # [end]


def best_clock(
    clocks_mhz: list[float],
    cycles: float,
    memory_s: float,
    base_w: float,
    cube_w: float,
    idle_w: float,
    deadline_s: float,
) -> tuple[float, float] | None:
    """The clock that does the work in time for the fewest joules, and the joules."""
    # [solution]
    best = None
    for clock in clocks_mhz:
        seconds = cycles / (clock * 1e6) + memory_s
        power = base_w + cube_w * (clock / max(clocks_mhz)) ** 3
        joules = power * seconds + idle_w * (deadline_s - seconds)
        if seconds <= deadline_s and (best is None or joules < best[1]):
            best = clock, joules
    return best
    # [starter]
    # raise NotImplementedError("joules until the deadline for each clock that is in time")
    # [end]


if __name__ == "__main__":
    from labcode.store import load_set

    windows = load_set().record("energy_matmul", "record")["results"]["windows"]
    kinds = ("bf16 random", "bf16 constant", "bf16 zeros")
    runs = pd.DataFrame(
        {
            "name": kind,
            "seconds": (windows[kind]["end_ns"] - windows[kind]["begin_ns"])
            / 1e9
            / windows[kind]["repetitions"],
            "energy_j": windows[kind]["zeus_j"] / windows[kind]["repetitions"],
            "flop": windows[kind]["flop"] / windows[kind]["repetitions"],
        }
        for kind in kinds
    )
    print("TFLOP for each joule of one matmul:", {k: round(v, 2) for k, v in per_joule(runs).items()})
    print("the least:", winners(runs))
    print("against random data (speedup, energy):", against(runs, "bf16 random"))
