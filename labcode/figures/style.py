"""A mode (light, dark, print) in; colors with fixed meanings, rcParams, fitting texts, SVG or PNG out.

Every color of the book's figures has one meaning, a *role*: a kernel is the same blue on every page. The
palettes hold one value per role and mode; text on a page keeps a contrast ratio of at least 4.5:1 and every
solid fill at least 3:1 against the page (WCAG 2.2, success criteria 1.4.3 and 1.4.11), and roles that share a
row or a chart stay apart for readers with protanopia, deuteranopia or tritanopia (a test simulates them).

What a picture was drawn from is kept with it (`declare`), for `labcode.figures.sources` to compare.
"""

import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator, StrMethodFormatter
from numpy.typing import ArrayLike, NDArray

from labcode.reports.columns import Floats
from labcode.show import one_line

Mode = Literal["light", "dark", "print"]
Where = Literal["x", "y"]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WIDTH_IN = 7.5  # the width of a page's text column
NARROW_IN = 3.6  # what a phone shows without scrolling, its type as large as elsewhere
TEXT_PT = 8.5
SMALL_PT = 8.0  # nothing is set smaller
TITLE_PT = 10.0

# Emitted into SVG files: every family is at most as wide as DejaVu Sans, which the layout is computed with.
FONT_STACK = "'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
ELLIPSIS = "…"
FEWEST = 5  # characters before an ellipsis, if that is a good part of the text …
ENOUGH = 10  # … or so many
LONGEST = 400  # characters worth measuring
PLAIN = "{x:,.6g}"
MOST_TICKS = 9


@dataclass(frozen=True)
class Palette:
    """Colors of one mode: the page, text, lines, the idle tint, and one fill per role."""

    mode: Mode
    paper: str  # what the figure is laid on; the figure itself is transparent
    text: str
    muted: str  # secondary text: axis labels, notes
    line: str  # axis lines and arrows
    grid: str  # hairlines behind the data
    tint: str  # shading of GPU idle time
    warn: str  # text that names idle time or a loss
    good: str  # text that names a gain
    fills: Mapping[str, str]
    light_ink: str = "#fffffe"
    dark_ink: str = "#0b0e11"

    def fill(self, role: str) -> str:
        """The solid color of a role; KeyError names the roles there are."""
        try:
            return self.fills[role]
        except KeyError:
            raise KeyError(f"no color for the role {role!r}; there are {', '.join(self.fills)}") from None

    def on(self, role: str) -> str:
        """The color of text drawn on a fill of that role."""
        color = self.fill(role)
        return max(self.light_ink, self.dark_ink, key=lambda ink: contrast(ink, color))

    def readable(self, color: str) -> str:
        """A color of this palette if it can serve as text on the page, else the text color."""
        return color if contrast(color, self.paper) >= 4.5 else self.text


# Role → (light, dark, what it is); sizes and variants (series) have no fixed meaning.
_ROLES: dict[str, tuple[str, str, str]] = {
    "kernel": ("#225eb3", "#62adfb", "kernel"),
    "nccl": ("#dc6716", "#f0a66a", "communication kernel"),
    "hidden": ("#5e4636", "#8f7b6d", "communication hidden behind kernels"),
    "h2d": ("#007553", "#4dd29f", "copy to the GPU"),
    "d2h": ("#c0549e", "#dc8fcb", "copy to the host"),
    "d2d": ("#7a5d07", "#c9ae41", "copy within the GPU"),
    "p2p": ("#8f5a3c", "#d3a184", "copy between GPUs"),
    "memset": ("#7f8183", "#9c9ea0", "memset"),
    "graph": ("#39289a", "#9a74c9", "CUDA graph"),
    "idle": ("#8b8b8d", "#7d838c", "idle"),
    "launch": ("#6b8bce", "#9cc8f7", "launch call"),
    "copy_call": ("#409773", "#7edfc7", "copy call"),
    "sync": ("#ad4036", "#ee7d70", "synchronize call"),
    "call": ("#5b4b62", "#6f7680", "other call"),
    "nvtx1": ("#3a4f59", "#c3d3da", "NVTX range"),
    "nvtx2": ("#5d7480", "#94abb6", "NVTX range, level 2"),
    "nvtx3": ("#7f939c", "#708794", "NVTX range, level 3"),
    "cpu": ("#5f6368", "#b4b9bf", "CPU work"),
    "baseline": ("#857c72", "#a89e93", "baseline"),
    "improved": ("#00708c", "#35bcd8", "improved"),
    "series1": ("#440f5e", "#9272cc", "series 1"),
    "series2": ("#1d4f7c", "#6cb2dd", "series 2"),
    "series3": ("#1b8163", "#74dfa4", "series 3"),
    "series4": ("#8a6f00", "#f4ec8e", "series 4"),
}
ROLE_NAMES: Mapping[str, str] = MappingProxyType({role: name for role, (*_, name) in _ROLES.items()})

LIGHT = Palette(
    mode="light",
    paper="#ffffff",
    text="#1b1f24",
    muted="#5a626b",
    line="#6b737c",
    grid="#e3e6e9",
    tint="#fbe2dc",
    warn="#a8321c",
    good="#00645a",
    fills=MappingProxyType({role: colors[0] for role, colors in _ROLES.items()}),
)
DARK = Palette(
    mode="dark",
    paper="#121212",
    text="#e6e8ea",
    muted="#a5adb5",
    line="#8d959d",
    grid="#2c3034",
    tint="#472520",
    warn="#ff9d8a",
    good="#5fd6c4",
    fills=MappingProxyType({role: colors[1] for role, colors in _ROLES.items()}),
)
PRINT = replace(
    LIGHT,
    mode="print",
    text="#000000",
    muted="#3d434a",
    line="#3d434b",
    grid="#d5d8db",
    tint="#f6d3cb",
    warn="#8e2412",
    good="#004f47",
)
PALETTES: Mapping[Mode, Palette] = MappingProxyType({"light": LIGHT, "dark": DARK, "print": PRINT})


class _Blank(Palette):
    """A palette whose colors stand for those that `colored` puts in their place, each for one of them."""

    def on(self, role: str) -> str:
        return _BLANKS["on", self.fill(role)]

    def readable(self, color: str) -> str:
        return _BLANKS["readable", color]


_PAGE_COLORS = ("paper", "text", "muted", "line", "grid", "tint", "warn", "good", "light_ink", "dark_ink")
_PLAIN = {name: f"#fe00{number:02x}" for number, name in enumerate((*_PAGE_COLORS, *_ROLES))}
_BLANKS = {  # what asks, and the color that it was asked for
    (method, color): f"#fe{number:02x}{color[-2:]}"
    for number, method in enumerate(("on", "readable"), 1)
    for color in _PLAIN.values()
}
_BLANK = _Blank(
    mode="light",
    **{name: _PLAIN[name] for name in _PAGE_COLORS},
    fills=MappingProxyType({role: _PLAIN[role] for role in _ROLES}),
)
_COLOR = re.compile(r"#[0-9a-f]{6}\b")

_active: ContextVar[Palette | None] = ContextVar("labcode_palette", default=None)
_width: ContextVar[float] = ContextVar("labcode_width", default=WIDTH_IN)
_read: ContextVar[dict[object, Any] | None] = ContextVar("labcode_read", default=None)


def luminance(color: str) -> float:
    """Relative luminance of a '#rrggbb' color (WCAG 2.2): 0 for black, 1 for white."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two '#rrggbb' colors (WCAG 2.2): from 1 to 21."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def rc_params(palette: Palette) -> dict[Any, Any]:
    """The rcParams of a mode."""
    return {
        "font.family": ["DejaVu Sans"],
        "font.size": TEXT_PT,
        "axes.titlesize": TITLE_PT,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlecolor": palette.text,
        "axes.titlepad": 8.0,
        "axes.labelsize": TEXT_PT,
        "axes.labelcolor": palette.muted,
        "axes.edgecolor": palette.line,
        "axes.facecolor": "none",
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": False,
        "axes.unicode_minus": True,
        "grid.color": palette.grid,
        "grid.linewidth": 0.7,
        "xtick.color": palette.line,
        "ytick.color": palette.line,
        "xtick.labelcolor": palette.muted,
        "ytick.labelcolor": palette.muted,
        "xtick.labelsize": SMALL_PT,
        "ytick.labelsize": SMALL_PT,
        "xtick.major.size": 3.0,
        "ytick.major.size": 3.0,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "text.color": palette.text,
        "text.hinting": "no_hinting",  # widths as in a browser
        "text.parse_math": False,  # kernel names hold dollar signs
        "legend.frameon": False,
        "legend.fontsize": SMALL_PT,
        "lines.linewidth": 1.6,
        "lines.solid_capstyle": "round",
        "figure.figsize": (WIDTH_IN, 3.4),
        "figure.dpi": 96.0,
        "figure.facecolor": "none",
        "figure.edgecolor": "none",
        "savefig.facecolor": "none",
        "savefig.edgecolor": "none",
        "savefig.transparent": True,
        "savefig.dpi": 192.0,
        "svg.fonttype": "none",
        "svg.hashsalt": "labcode",
        "pdf.fonttype": 42,
    }


@contextmanager
def style(mode: Mode = "light") -> Iterator[Palette]:
    """Draw and save inside this context; gives the palette of the mode. Contexts nest."""
    if mode not in PALETTES:
        raise ValueError(f"no figure mode {mode!r}; there are {', '.join(PALETTES)}")
    palette = PALETTES[mode]
    token = _active.set(palette)
    try:
        with matplotlib.rc_context(rc_params(palette)):
            yield palette
    finally:
        _active.reset(token)


@contextmanager
def blank() -> Iterator[None]:
    """Draw inside this context, as inside `style`, what `colored` makes light or dark."""
    token = _active.set(_BLANK)
    try:
        with matplotlib.rc_context(rc_params(_BLANK)):
            yield
    finally:
        _active.reset(token)


def colored(svg: str, mode: Mode) -> str | None:
    """An SVG drawn inside `blank`, in the colors of a mode; ``None`` if it has other colors, or pixels."""
    colors = _colors_of(mode)
    if "<image" in svg or not colors.keys() >= set(_COLOR.findall(svg)):
        return None
    return _COLOR.sub(lambda found: colors[found.group()], svg)


@functools.cache
def _colors_of(mode: Mode) -> Mapping[str, str]:
    """What stands in the place of each color of `blank`."""
    palette = PALETTES[mode]
    plain = {name: getattr(palette, name) for name in _PAGE_COLORS} | dict(palette.fills)
    return {
        **{_PLAIN[name]: color for name, color in plain.items()},
        **{_BLANKS["readable", _PLAIN[name]]: palette.readable(color) for name, color in plain.items()},
        **{_BLANKS["on", _PLAIN[role]]: palette.on(role) for role in palette.fills},
    }


def current() -> Palette:
    """The palette of the innermost style(); the light one outside of any."""
    return _active.get() or LIGHT


@contextmanager
def narrow() -> Iterator[None]:
    """Draw inside this context, within `style`, what phones show."""
    token = _width.set(NARROW_IN)
    try:
        with matplotlib.rc_context({"figure.figsize": (NARROW_IN, 3.4)}):
            yield
    finally:
        _width.reset(token)


@contextmanager
def one_picture() -> Iterator[None]:
    """Draw the forms of one picture inside this context: what is `read_once` is read for all of them."""
    token = _read.set({})
    try:
        yield
    finally:
        _read.reset(token)


def read_once(read: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function that nothing drawn depends on give the same again within `one_picture`.

    Arguments that cannot be looked up are read anew each time.
    """

    @functools.wraps(read)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        known = _read.get()
        if known is None:
            return read(*args, **kwargs)
        key = (read, args, tuple(kwargs.items()))
        try:
            found = known.get(key)
        except TypeError:
            return read(*args, **kwargs)
        if found is None:
            found = known[key] = read(*args, **kwargs)
        return found

    return wrapper


def page_width() -> float:
    """How wide a figure is drawn, in inches: less inside `narrow`."""
    return _width.get()


def is_narrow() -> bool:
    """Whether what is drawn is for phones."""
    return page_width() < WIDTH_IN


def widest_label() -> float:
    """What a row's label may take beside the axes, in inches."""
    return 0.32 * page_width()


def styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Make a drawing function use the light style when it is called outside of any style()."""

    @functools.wraps(draw)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        if _active.get() is not None:
            return draw(*args, **kwargs)
        with style("light"):
            return draw(*args, **kwargs)

    return wrapper


def figure_bytes(figure: Figure, format: Literal["svg", "png", "pdf"] = "svg") -> bytes:
    """A figure as a file's content, always the same; call it inside the style() that it was drawn in."""
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}.get(
        format, {}
    )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from"
        )  # a browser has more glyphs than one font
        figure.savefig(buffer, format=format, metadata=metadata)
    if format != "svg":
        return buffer.getvalue()
    text = re.sub(r"'DejaVu Sans'(?:, (?:'[^']*'|[\w-]+))*", FONT_STACK, buffer.getvalue().decode())
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), text).encode()


def render(
    draw: Callable[[], Figure], mode: Mode = "light", format: Literal["svg", "png", "pdf"] = "svg"
) -> bytes:
    """Call a function that draws a figure and give the file's content, both inside style(mode)."""
    with style(mode):
        return figure_bytes(draw(), format)


def tidy(text: str) -> str:
    """The text on one line, as much of it as a picture may have to show, controls as they are seen."""
    return one_line(text, LONGEST)


@functools.lru_cache(maxsize=20_000)
def width_in(text: str, size_pt: float = SMALL_PT, bold: bool = False) -> float:
    """Width of a line of text in inches, set in the font that layouts are computed with."""
    font = FontProperties(family="DejaVu Sans", size=size_pt, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that this font lacks
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def shorten(label: str) -> str:
    """A label of a row, cut to what fits beside the axes; narrow figures give it two lines."""
    return _shorten(label, widest_label(), 2 if is_narrow() else 1)


@functools.lru_cache(maxsize=20_000)
def _shorten(label: str, room_in: float, lines: int) -> str:
    label = tidy(label)
    if lines > 1 and width_in(label, TEXT_PT) > room_in:
        first, rest = _broken(label, room_in, TEXT_PT)
        return f"{first}\n{_shorten(rest, room_in, lines - 1)}"
    while width_in(label, TEXT_PT) > room_in:
        label = label[: max(1, int(len(label) * 0.95) - 2)].rstrip() + "…"
    return label


def _broken(text: str, room_in: float, size_pt: float) -> tuple[str, str]:
    """A text's first line, broken where words or parts of a name end, and the rest."""
    ends = [found.end() for found in re.finditer(r"\s+|[_.,:/(<-]", text)]
    fitting = [end for end in ends if width_in(text[:end].rstrip(), size_pt) <= room_in]
    at = max(fitting, default=0)
    while not at or width_in(text[:at], size_pt) < 0.4 * room_in:
        at += 1
    return text[:at].rstrip(), text[at:].lstrip()


def wrapped(text: str, room_in: float, size_pt: float = SMALL_PT) -> str:
    """A text on as many lines as it needs to fit into ``room_in`` inches."""
    lines = []
    while width_in(text, size_pt) > room_in and len(text) > FEWEST:
        line, text = _broken(text, room_in, size_pt)
        lines.append(line)
    return "\n".join([*lines, text])


def fit(text: str, room_in: float, size_pt: float = SMALL_PT) -> str:
    """What of a text says enough and fits into `room_in` inches; "" if nothing does.

    The whole text; else its beginning and an ellipsis; of a numbered one ("step 12") also the number.
    """
    if len(text) > 2 * LONGEST:  # its beginning is shown, and what it ends with
        text = f"{text[:LONGEST]} {text[-LONGEST:]}"
    text = one_line(text)
    if len(text) < LONGEST and width_in(text, size_pt) <= room_in:
        return text
    numbered = re.fullmatch(r"(.*\D)\s(\d+)", text)
    head, tail = (numbered[1], " " + numbered[2]) if numbered else (text, "")
    low, high = 0, min(len(head), LONGEST)
    while low < high:
        middle = (low + high + 1) // 2
        if width_in(head[:middle].rstrip() + ELLIPSIS + tail, size_pt) <= room_in:
            low = middle
        else:
            high = middle - 1
    if low >= FEWEST and (low >= ENOUGH or low >= len(head) * 0.4):
        return head[:low].rstrip() + ELLIPSIS + tail
    return tail[1:] if tail and width_in(tail[1:], size_pt) <= room_in else ""


def note(
    axes: Axes,
    words: str,
    place: tuple[float, float],
    shift: tuple[float, float],
    *,
    along: Literal["", "x", "y"] = "",
    **look: Any,
) -> None:
    """Small words ``shift`` points beside a place; ``along`` an axis its other coordinate is a share of the
    height or width of the axes. ``look`` is as of `Axes.annotate`; the color is by default the muted one.
    """
    within = {"x": axes.get_xaxis_transform, "y": axes.get_yaxis_transform}
    look = {"fontsize": SMALL_PT, "color": current().muted, **look}
    coordinates = within[along]() if along else "data"
    axes.annotate(words, place, xycoords=coordinates, xytext=shift, textcoords="offset points", **look)


def plain_numbers(axis: Axis) -> None:
    """Numbers with separators of thousands, without exponents."""
    axis.set_major_formatter(StrMethodFormatter(PLAIN))


def logarithmic(axis: Axis, values: NDArray[np.float64] | None = None) -> None:
    """Put an axis that is logarithmic already in order: ticks at the values themselves if they are few and
    apart.

    Otherwise at 1, 2 and 5 of each decade, or at the decades if there are more than three.
    """
    plain_numbers(axis)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    most = 5 if is_narrow() else MOST_TICKS
    if values is not None:
        own = np.unique(values[np.isfinite(values) & (values > 0)])
        apart = own.size < 2 or np.diff(np.log10(own)).min() * 2 * most >= np.log10(own[-1] / own[0])
        short = all(float(f"{value:.3g}") == value for value in own)
        if 0 < own.size <= most and apart and short:
            axis.set_major_locator(FixedLocator([float(value) for value in own]))
            return
    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0 else 1.0
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades <= 3 else (1.0,), numticks=20))


# ---- what a picture was drawn from, which stays with it ----

UNNAMED = " "  # the label of a series that needs none: the only one
_SOURCES = "labcode_sources"


@dataclass(frozen=True)
class Source:
    """What axes hold: of each series where its points are (numbers, or labels of ticks) and their values.

    ``values_on`` is the axis that has the values. ``samples``: in no order. ``stacked``: each series begins
    where the one before ends. ``axes`` None: wherever the names are found.
    """

    series: Mapping[str, tuple[Sequence[Any] | NDArray[Any], Floats]]
    axes: Axes | None = None
    values_on: Where = "y"
    samples: bool = False
    stacked: bool = False
    key: tuple[str, ...] = ()  # entries of the key that are no series


def declare(
    axes: Axes,
    series: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    values_on: Where = "y",
    samples: bool = False,
    stacked: bool = False,
    key: Sequence[str] = (),
) -> None:
    """Keep with a figure what its axes were drawn from: name → (places, values), in the axes' units."""
    kept = {
        name: (np.asarray(at), np.asarray(values, dtype=np.float64)) for name, (at, values) in series.items()
    }
    source = Source(kept, axes, values_on, samples, stacked, tuple(key))
    vars(axes.get_figure(root=True)).setdefault(_SOURCES, []).append(source)


def declared_of(figure: Figure) -> list[Source]:
    """What the axes of a figure were drawn from, in order; nothing where nobody said so."""
    found: list[Source] = vars(figure).get(_SOURCES, [])
    return found
