"""Colors keep their contrast and stay apart for color-blind readers; files are transparent and repeatable."""

import io
import os
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from labcode.figures.style import (
    FONT_STACK,
    LIGHT,
    PALETTES,
    ROLE_NAMES,
    SMALL_PT,
    TEXT_PT,
    Palette,
    contrast,
    current,
    luminance,
    narrow,
    one_picture,
    rc_params,
    read_once,
    render,
    style,
)

PAGES = {"light": ["#ffffff", "#fafafa"], "dark": ["#121212", "#1a1a1a"], "print": ["#ffffff"]}
# Roles that meet in one row or chart.
NEIGHBORS = [
    ("kernel", "nccl", "memset", "d2d", "graph"),
    ("kernel", "h2d", "d2h", "memset"),
    ("launch", "copy_call", "sync", "call"),
    ("kernel", "nccl", "idle", "h2d", "d2h"),
    ("nccl", "hidden"),
    ("baseline", "improved"),
    ("nvtx1", "nvtx2"),
    ("series1", "series2", "series3", "series4"),
]
# Linear RGB under full color blindness: Machado, Oliveira, Fernandes (2009), IEEE TVCG 15 (6), severity 1.
SEEN_AS = {
    "all colors": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def cielab(color: str, seen: np.ndarray) -> np.ndarray:
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(seen @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    fx, fy, fz = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.fixture(params=list(PALETTES))
def palette(request: pytest.FixtureRequest) -> Palette:
    return PALETTES[request.param]


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert luminance("#ff0000") == pytest.approx(0.2126)


def test_modes_differ_in_colors_alone(palette: Palette) -> None:
    """What is readable in one of them is where it is in all, and as large."""
    assert {name for name, value in rc_params(palette).items() if value != rc_params(LIGHT)[name]} <= {
        *("axes.titlecolor", "axes.labelcolor", "axes.edgecolor", "grid.color", "text.color"),
        *("xtick.color", "xtick.labelcolor", "ytick.color", "ytick.labelcolor"),
    }


def test_texts_contrast_with_the_page(palette: Palette) -> None:
    for page in PAGES[palette.mode]:
        for color in (palette.text, palette.muted, palette.warn, palette.good):
            assert contrast(color, page) >= 4.5
    assert contrast(palette.text, palette.tint) >= 4.5
    assert contrast(palette.warn, palette.tint) >= 4.5
    assert contrast(palette.text, palette.grid) >= 4.5


def test_fills_contrast_with_the_page_and_with_their_texts(palette: Palette) -> None:
    for role, color in palette.fills.items():
        for page in PAGES[palette.mode]:
            assert contrast(color, page) >= 3, f"{role} on {page}"
        assert contrast(palette.on(role), color) >= 4.5, role


def test_the_idle_tint_can_be_seen_and_stays_behind(palette: Palette) -> None:
    assert 1.1 <= contrast(palette.tint, palette.paper) < 2


@pytest.mark.parametrize("seen", list(SEEN_AS))
def test_roles_that_meet_differ_for_every_eye(palette: Palette, seen: str) -> None:
    for group in NEIGHBORS:
        for one, two in combinations(group, 2):
            a, b = (cielab(palette.fill(role), SEEN_AS[seen]) for role in (one, two))
            assert np.linalg.norm(a - b) >= 11, f"{one} and {two}"


def test_each_role_has_a_color_of_its_own_and_a_name(palette: Palette) -> None:
    assert len(set(palette.fills.values())) == len(palette.fills)
    assert set(ROLE_NAMES) == set(palette.fills)
    with pytest.raises(KeyError, match="no color for the role 'kernels'; there are kernel, "):
        palette.fill("kernels")


def test_no_text_is_smaller_than_eight_points(palette: Palette) -> None:
    sizes = [value for name, value in rc_params(palette).items() if name.endswith("size") and "font" in name]
    sizes += [rc_params(palette)[name] for name in ("xtick.labelsize", "ytick.labelsize", "axes.labelsize")]
    assert min(SMALL_PT, TEXT_PT, *sizes) >= 8


def test_styles_nest_and_leave_nothing_behind() -> None:
    before = dict(matplotlib.rcParams)
    with style("dark"):
        assert current().mode == "dark"
        with style("print"):
            assert current().mode == "print"
        assert current().mode == "dark"
    assert current().mode == "light"
    assert dict(matplotlib.rcParams) == before


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="no figure mode 'sepia'; there are light, dark, print"):
        render(draw, "sepia")  # type: ignore[arg-type]


def draw() -> Figure:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    axes.set_title("scale<$_0>(float*) 名")
    return figure


def test_svg_holds_text_as_text_in_a_common_font_and_is_always_the_same() -> None:
    one, two = render(draw), render(draw)
    assert one == two
    svg = one.decode()
    assert "scale&lt;$_0&gt;(float*) 名" in svg
    assert FONT_STACK in svg
    assert "<dc:date>" not in svg


def test_background_is_transparent() -> None:
    image = Image.open(io.BytesIO(render(draw, "dark", "png")))
    assert image.mode == "RGBA"
    assert image.getpixel((0, 0))[3] == 0  # type: ignore[index]


def test_pdf_for_print() -> None:
    assert render(draw, "print", "pdf").startswith(b"%PDF")
    assert render(draw, "print", "pdf") == render(draw, "print", "pdf")


@pytest.mark.parametrize(("named", "taken"), [("nonsense", "agg"), ("svg", "svg")])
def test_a_backend_that_does_not_exist_is_not_needed(named: str, taken: str) -> None:
    code = "import os, labcode.figures, matplotlib; print(os.environ['MPLBACKEND'], matplotlib.get_backend())"
    environment = {**os.environ, "MPLBACKEND": named}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [named, taken], done.stderr


def test_fonts_are_listed_once_where_home_is_read_only(tmp_path: Path) -> None:
    code = """if True:
        import os
        from pathlib import Path
        access = os.access
        os.access = lambda path, mode: Path(path) != Path.home() and access(path, mode)  # root may all
        import labcode.figures
        import matplotlib
        print(matplotlib.get_cachedir())"""
    shutil.copytree(matplotlib.get_cachedir(), tmp_path / "kept" / "matplotlib")  # which lists fonts already
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("XDG_", "MPL"))}
    environment |= {"HOME": str(tmp_path), "LABCODE_CACHE": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (str(tmp_path / "kept" / "matplotlib"), "")


def test_what_a_picture_reads_is_read_once_for_all_its_forms():
    read = []

    @read_once
    def rows(*names):
        read.append(names)
        return list(names)

    assert rows("a") is not rows("a")
    with one_picture():
        first = rows("a")
        with narrow():
            assert rows("a") is first
        for name in ("b", ["c"], ["c"]):  # a list cannot be looked up
            rows(name)
    rows("a")
    assert read == [("a",), ("a",), ("a",), ("b",), (["c"],), (["c"],), ("a",)]


@pytest.mark.parametrize("kind", ["bytes", "settings", "pipe"])
def test_a_matplotlibrc_in_the_current_folder_is_not_read(tmp_path: Path, kind: str) -> None:
    """A folder of reports may come from anywhere."""
    there = tmp_path / "matplotlibrc"
    if kind == "pipe":
        os.mkfifo(there)
    else:
        there.write_bytes(b"\xff\xfe\n" if kind == "bytes" else b"savefig.bbox: tight\n")
    code = "import labcode.figures, matplotlib, os; print(matplotlib.rcParams['savefig.bbox'], os.getcwd())"
    words = [sys.executable, "-P", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"None {tmp_path}\n" and not done.stderr
