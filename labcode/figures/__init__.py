"""Functions from tables to matplotlib figures, in one style with fixed colors.

``render(lambda: timeline(report), mode="dark")`` gives the SVG of one.
"""

import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.outputs import cache_folder, may_be_made

if "matplotlib" not in sys.modules:  # which cannot be imported where MPLBACKEND names no backend
    with contextlib.suppress(LabError, RuntimeError):  # RuntimeError: nobody knows where home is
        _base = os.environ.get("XDG_CONFIG_HOME")
        if not may_be_made((Path(_base) if _base else Path.home() / ".config") / "matplotlib"):
            # its list of fonts would be made anew, and that said, at each start
            os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))
    _backend = os.environ.pop("MPLBACKEND", None)
    with contextlib.ExitStack() as _away:
        # it reads a matplotlibrc in the current folder, which may be that of files from anywhere
        with contextlib.suppress(OSError):  # the current folder is gone
            _away.enter_context(contextlib.chdir(Path(__file__).parent))
        import matplotlib

    if _backend is not None:
        os.environ["MPLBACKEND"] = _backend
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = _backend

from labcode.figures.style import Mode, Palette, contrast, current, figure_bytes, render, style
from labcode.figures.timeline.picture import compare_timelines, draw_timeline, timeline

if TYPE_CHECKING:
    from labcode.figures.charts.basic import bars, distribution, paired_bars, shares
    from labcode.figures.charts.curves import bandwidth_curve, lines, time_series
    from labcode.figures.diagrams.decisions import bottleneck_tree
    from labcode.figures.diagrams.schematic import (
        asynchronous_launch,
        bucketed_overlap,
        copy_engines,
        host_timer_and_events,
        nvtx_projection,
        ring_all_reduce,
        streams_in_order,
    )

__all__ = [
    "Mode",
    "Palette",
    "asynchronous_launch",
    "bandwidth_curve",
    "bars",
    "bottleneck_tree",
    "bucketed_overlap",
    "compare_timelines",
    "contrast",
    "copy_engines",
    "current",
    "distribution",
    "draw_timeline",
    "figure_bytes",
    "host_timer_and_events",
    "lines",
    "nvtx_projection",
    "paired_bars",
    "render",
    "ring_all_reduce",
    "shares",
    "streams_in_order",
    "style",
    "time_series",
    "timeline",
]


_ROOMS = {
    **dict.fromkeys(("bars", "distribution", "paired_bars", "shares"), "charts.basic"),
    **dict.fromkeys(("bandwidth_curve", "lines", "time_series"), "charts.curves"),
    "bottleneck_tree": "diagrams.decisions",
}


def __getattr__(name: str) -> Any:
    """Charts and diagrams, imported when somebody draws one."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS.get(name, 'diagrams.schematic')}"), name)
