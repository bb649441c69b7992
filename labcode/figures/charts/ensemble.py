"""Groups of runs over a parameter in; a figure of their times, or a file with it, out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from matplotlib.figure import Figure

from labcode.analysis.compare.ensemble import Ensemble
from labcode.errors import LabError
from labcode.figures.charts.curves import lines
from labcode.figures.style import render
from labcode.outputs import whole
from labcode.show import one_line

_KINDS = ("period", "total", "rank", "window")  # the first that there is, is drawn
_MOST = 4
_LOGARITHMIC = 8  # from this ratio of the largest to the smallest value on


def over(found: Ensemble, kinds: Sequence[str] = ()) -> Figure:
    """Medians over the parameter of `Ensemble.over`, with the spread of the runs as a band; in ms, or joules.

    Of ``kinds`` (by default all) what says the most is drawn: periods of ranges (of numbered ones, if there
    are any), else totals. `LabError` without a parameter, or with nothing to draw.
    """
    if found.column is None:
        raise LabError("nothing to draw over: give each group its value of a parameter")
    key, _ = found.column
    table = found.table[found.table[key].notna() & found.table["median"].notna()]
    table = table[table["unit"].isin(["ns", "J"])]
    there = [kind for kind in dict.fromkeys([*_KINDS, *table["kind"]]) if kind in set(table["kind"])]
    kind = next((kind for kind in there if not kinds or kind in kinds), "")
    table = table[table["kind"] == kind]
    if not len(table):
        raise LabError("nothing to draw: no times of these kinds")
    numbered = table[table["name"].str.endswith("#")]
    table = numbered if len(numbered) else table
    most = table.groupby("name")["median"].max().nlargest(_MOST).index
    x = sorted(table[key].unique())
    scale = 1.0 if (table["unit"] == "J").any() else 1e6
    drawn, bands = {}, {}
    for name in most:
        mine = table[table["name"] == name].set_index(key).reindex(x)
        short = one_line(str(name), 24)
        drawn[short] = mine["median"].to_numpy() / scale
        bands[short] = (mine["low"].to_numpy() / scale, mine["high"].to_numpy() / scale)
    log = len(x) > 2 and x[0] > 0 and x[-1] / x[0] >= _LOGARITHMIC
    what = f"{kind}: energy (J)" if scale == 1.0 else f"{kind}: median (ms)"
    return lines(x, drawn, x_label=key, y_label=what, bands=bands, log_x=log)


def write_over(found: Ensemble, path: Path, *, kinds: Sequence[str] = (), reads: Sequence[Path] = ()) -> Path:
    """Draw `over` into X.svg, X.png or X.pdf."""
    form = path.suffix.lower().removeprefix(".")
    if form not in ("svg", "png", "pdf"):
        raise LabError(f"{path}: the plot is a picture; name a file that ends in .svg, .png or .pdf")
    with whole(path, reads=reads) as part:
        part.write_bytes(render(lambda: over(found, kinds), format=cast("Any", form)))
    return path
