"""Hidden cases of part a (clocks, blame, cause): a generator in, collectives and times of ranks out."""

import numpy as np
import pandas as pd

from labcode.grading.cases import Case

Rng = np.random.Generator
Ready = list[list[int]]  # by collective: when each rank is there, on one clock


def _meetings(ready: Ready, clocks: list[int], apart: list[list[int]] | None = None) -> pd.DataFrame:
    """Collectives as each clock shows them; ``apart``: how much later than the others each rank leaves."""
    rows = []
    for number, there in enumerate(ready):
        done = max(there) + 40
        for rank, (at, clock) in enumerate(zip(there, clocks, strict=True)):
            left = done + (apart[number][rank] if apart else 0)
            rows.append((rank, number, at + clock, left + clock))
    return pd.DataFrame(rows, columns=["rank", "number", "start_ns", "end_ns"])


def _spent(compute: list[int], idle: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"rank": range(len(compute)), "compute_ns": compute, "idle_ns": idle})


def _tables(rng: Rng) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    few = [int(x) for x in rng.integers(1, 9, 4)]
    clocks = [0, *(int(x) for x in rng.integers(-90_000, 90_000, 3))]
    late = [
        [1000 * k + few[0], 1000 * k + few[1], 1000 * k + 300 + 10 * k, 1000 * k + few[3]]
        for k in range(1, 7)
    ]
    even = _spent([500, 510, 505, 520], [90, 80, 85, 70])
    return {
        "one rank late, clocks together": (_meetings(late, [0, 0, 0, 0]), even),
        "one rank late, clocks apart": (
            _meetings(late, clocks),
            _spent([500, 510, 900, 520], [90, 80, 95, 70]),
        ),
        "its host is late": (_meetings(late, clocks), _spent([500, 510, 512, 520], [90, 80, 395, 70])),
        "as much computing as idling": (
            _meetings(late, clocks),
            _spent([500, 500, 600, 500], [80, 80, 180, 80]),
        ),
        "less computing than most, more idling": (
            _meetings(late, clocks),
            _spent([700, 900, 650, 100], [90, 80, 100, 2000]),
        ),
        "who waits longest is not late": (
            _meetings([[100, 700, 720, 710], [100, 680, 800, 690], [90, 700, 730, 705]], clocks),
            _spent([300, 510, 620, 520], [400, 80, 85, 70]),
        ),
        "often last by a little, once by much": (
            _meetings(
                [[100, 110, 104, 90], [100, 111, 104, 90], [100, 109, 104, 90], [100, 99, 104, 400]], clocks
            ),
            _spent([500, 510, 505, 620], [90, 80, 85, 71]),
        ),
        "two late together": (
            _meetings([[100, 400, 400, 90], [100, 400, 400, 90], [95, 102, 100, 90]], clocks),
            _spent([500, 700, 690, 520], [90, 80, 85, 70]),
        ),
        "equal delays": (
            _meetings([[100, 150, 100, 100], [100, 100, 150, 100]], [0, 0, 0, 0]),
            _spent([500, 600, 600, 500], [90, 85, 85, 90]),
        ),
        "nobody is late": (_meetings([[100, 100], [300, 300]], [0, 555]), _spent([500, 510], [90, 80])),
        "two ranks": (_meetings([[100, 250], [400, 430]], [0, 1000]), _spent([500, 610], [190, 80])),
        "one collective": (_meetings([[100, 90, 340]], [0, 70, -70]), _spent([50, 60, 55], [90, 80, 385])),
        "rank 0 is the late one": (
            _meetings([[900, 250, 260], [1900, 1230, 1290]], [0, 12_345, -777]),
            _spent([950, 310, 320], [50, 45, 40]),
        ),
        "three ranks, all unlike": (
            _meetings([[100, 90, 340], [500, 590, 700]], [0, *clocks[:2]]),
            _spent([100, 200, 300], [50, 60, 190]),
        ),
        "one collective that some leave late": (
            _meetings(late[:5], clocks, [[0, 0, 0, 0]] * 2 + [[0, 700, 0, 900]] + [[0, 0, 0, 0]] * 2),
            even,
        ),
        "the first collective, which some leave late": (
            _meetings(late[:3], clocks, [[0, 700, 0, 900], [0, 0, 0, 0], [0, 0, 0, 0]]),
            even,
        ),
        "always next to last": (
            _meetings([[100, 390, 400, 90], [100, 390, 90, 420], [100, 390, 95, 410]], clocks),
            _spent([500, 510, 505, 620], [90, 80, 85, 70]),
        ),
        "rows in any order": (_meetings(late, clocks).sample(frac=1, random_state=3), even),
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on every table."""
    made = []
    for name, (meetings, spent) in _tables(rng).items():
        what = f"{meetings['rank'].nunique()} ranks, {meetings['number'].nunique()} collectives"
        made += [
            Case(name, what, function, (meetings,), table=meetings) for function in ("offsets", "delays")
        ]
        made.append(Case(name, what, "straggler", (meetings, spent), table=meetings))
    return made
