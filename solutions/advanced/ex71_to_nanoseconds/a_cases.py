"""Hidden cases of part a (one cell): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    value = float(rng.integers(2, 5000)) + 0.25
    made = [f"Total Time ({unit})" for unit in ("ns", "us", "µs", "ms", "s")]
    made += ["Time (%) of all (ms)", "Med (s)", "Items (ns)", "Time of streams (us)"]
    made += ["Instances (ms)", "Status (s)"]
    return [Case(header, f"{value} under “{header}”", "to_ns", (header, value)) for header in made]
