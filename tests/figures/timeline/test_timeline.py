"""Timelines can be read: no text over another, small files, one scale when compared, odd input."""

import io
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from PIL import Image

from labcode.analysis.timeline.critical_path import critical_path
from labcode.figures import compare_timelines, render, timeline
from labcode.figures.style import LIGHT
from labcode.figures.timeline.picture import choose_unit, compose, draw_timeline
from labcode.figures.timeline.rows import NO_GPU_WORK, Group, Row, make_bars
from labcode.reports.kineto.report import open_trace
from tests.figures.reading import assert_readable, texts, words
from tests.figures.tables import Tables, data_parallel, pipeline, streams, training
from tests.support import traces


def boxes(figure: Figure, role: str) -> list[tuple[float, float]]:
    """x0 and x1 of all bars of a role, in units of the axis."""
    color = matplotlib.colors.to_rgba(LIGHT.fill(role))
    found: list[tuple[float, float]] = []
    for patch in figure.axes[0].patches:
        if isinstance(patch, PathPatch) and patch.get_facecolor() == color:
            corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)
            found += [(float(c[0, 0]), float(c[1, 0])) for c in corners]
    return found


def test_the_projection_has_a_row_on_the_gpu() -> None:
    figure = timeline(pipeline(), rows=("nvtx", "api", "projection", "streams"))
    assert_readable(figure)


@pytest.mark.parametrize(
    "report",
    [training(), streams(), pipeline(), data_parallel()],
    ids=["training", "streams", "pipeline", "nccl"],
)
def test_realistic_captures_are_readable(report: Tables) -> None:
    assert_readable(timeline(report, title="A title"))


def test_comparisons_are_readable() -> None:
    pairs = [("baseline", data_parallel(overlapped=False), None), ("improved", data_parallel(), None)]
    assert_readable(compare_timelines(pairs))


def test_a_critical_path_is_a_line_below_its_rows(tmp_path: Path) -> None:
    one = traces.Trace()
    one.launch(traces.GEMM, (10_000, 20_000), (25_000, 90_000))
    one.call("cudaDeviceSynchronize", 40_000, 95_000)
    report = open_trace(one.write(tmp_path / "a.trace.json"))
    figure = timeline(report, path=critical_path(report))
    (line,) = figure.axes[0].get_lines()
    x, y = line.get_data()
    assert np.allclose(x, [0, 10, 10, 80, 80, 85])  # from the first event: call, kernel, the rest of the wait
    assert y[0] == y[1] == y[4] == y[5] < y[2] == y[3]
    assert "critical path" in words(figure)
    assert_readable(figure)
    elsewhere = timeline(report, rows=("api",), path=critical_path(report))
    assert np.isnan(elsewhere.axes[0].get_lines()[0].get_ydata()).any()  # no row to draw the kernel at


def test_rows_are_named_at_the_left_and_idle_time_at_the_right() -> None:
    figure = timeline(training())
    found = {item.text: item.box for item in texts(figure)}
    assert {"NVTX", "CUDA API", "copies H2D", "copies D2H", "stream 7"} <= set(found)
    left = figure.axes[0].get_window_extent().x0
    assert all(found[name].x1 <= left for name in ("NVTX", "CUDA API", "copies H2D", "stream 7"))
    idle = [text for text in found if text.startswith("idle")]
    assert len(idle) == 1
    assert found[idle[0]].x0 >= figure.axes[0].get_window_extent().x1


def test_time_starts_at_zero_in_a_unit_that_fits() -> None:
    figure = timeline(training())
    assert figure.axes[0].get_xlim()[0] == 0
    assert "time (ms)" in words(figure)
    assert [choose_unit(n) for n in (500, 5_000, 5_000_000, 5_000_000_000)] == ["ns", "µs", "ms", "s"]


def test_bars_lie_at_their_times() -> None:
    t = Tables()
    t.add("kernels", 1_000_000, 3_000_000)
    t.add("kernels", 5_000_000, 9_000_000)
    figure = timeline(t, window=(1_000_000, 11_000_000), rows=("streams",))
    pixel = 10 / (figure.axes[0].get_window_extent().width)
    assert boxes(figure, "kernel") == [pytest.approx((0, 2), abs=pixel), pytest.approx((4, 8), abs=pixel)]
    tint = matplotlib.colors.to_rgba(LIGHT.tint)
    shaded = [p for p in figure.axes[0].patches if isinstance(p, PathPatch) and p.get_facecolor() == tint]
    corners = np.asarray(shaded[0].get_path().vertices).reshape(-1, 5, 2)
    assert [(c[0, 0], c[1, 0]) for c in corners] == [(2, 4), (8, 10)]
    assert "idle 40%" in words(figure)


def test_texts_fit_into_their_bars() -> None:
    t = Tables()
    for i, width in enumerate((2, 5, 10, 20, 40, 80)):
        start = sum((2, 5, 10, 20, 40, 80)[:i]) * 1000
        t.add("kernels", start, start + width * 1000, name="a_kernel_with_quite_a_name(int)")
    figure = timeline(t, rows=("streams",))
    drawn = [item for item in texts(figure) if item.text.startswith("a_")]
    assert [item.text for item in drawn][-1] == "a_kernel_with_quite_a_name"
    assert any(item.text.endswith("…") for item in drawn)
    bars = [figure.axes[0].transData.transform([(a, 0), (b, 0)])[:, 0] for a, b in boxes(figure, "kernel")]
    for item in drawn:
        assert any(a <= item.box.x0 and item.box.x1 <= b + 1 for a, b in bars), item.text


def crowd(count: int) -> Tables:
    t = Tables()
    start = np.sort(np.random.default_rng(5).integers(0, 10**9, count))
    for i, s in enumerate(start.tolist()):
        t.add("kernels", s, s + 3_000, stream=i % 8)
        t.add("api", s - 5_000, s - 3_000, name="cudaLaunchKernel")
    t.span = (0, 10**9)
    return t


def test_a_hundred_thousand_events_make_a_small_file() -> None:
    report = crowd(50_000)
    assert len(report.kernels()) + len(report.api()) == 100_000
    svg = render(lambda: timeline(report))
    assert len(svg) < 250_000


def test_a_gap_of_two_pixels_among_tiny_kernels_can_be_seen() -> None:
    t = Tables()
    pixel = 1_000_000  # of about 560
    for s in range(0, 560 * pixel, pixel // 4):
        if not 300 * pixel <= s < 302 * pixel + pixel // 4:
            t.add("kernels", s, s + pixel // 5)
    t.span = (0, 560 * pixel)

    def draw() -> Figure:
        return timeline(t, rows=("streams",), annotate_idle=False)

    figure = draw()
    image = np.asarray(Image.open(io.BytesIO(render(draw, "light", "png"))).convert("RGBA"))
    x0, y0, x1, y1 = np.asarray(figure.axes[0].get_window_extent().extents) * 2
    row = image[image.shape[0] - int(y0) - int((y1 - y0) * 0.4), :, 3]
    middle = int(x0 + (x1 - x0) * 301 / 560)
    assert row[middle - 2 : middle + 3].min() < 60
    assert row[middle - 40 : middle - 10].min() > 200
    assert row[middle + 10 : middle + 40].min() > 200


def test_an_empty_report_says_so() -> None:
    figure = timeline(Tables())
    assert NO_GPU_WORK in words(figure)
    assert_readable(figure)
    assert NO_GPU_WORK in words(timeline(training(), window=(10**12, 10**12 + 1000)))
    assert NO_GPU_WORK in words(compare_timelines([("one", Tables(), None), ("two", Tables(), None)]))


def test_no_captures_and_no_rows() -> None:
    assert_readable(compare_timelines([]))
    assert_readable(compose([], (0, 1000)))


def test_one_event_and_an_event_without_duration() -> None:
    single = Tables()
    single.add("kernels", 100, 200, name="only(int)")
    assert_readable(timeline(single))
    assert "only" in words(timeline(single))
    instant = Tables()
    instant.add("kernels", 100, 100)
    assert_readable(timeline(instant))
    assert len(boxes(timeline(instant, window=(0, 1000)), "kernel")) == 1


def test_very_long_and_strange_names() -> None:
    t = Tables()
    t.add("nvtx", 0, 900, name="x" * 5000)
    t.add("nvtx", 10, 800, name="line one\nline two\t$a_b$ \\frac{1}{2} 名前 \x07")
    t.add("kernels", 0, 900, name="void cutlass::Kernel<cutlass::gemm::" + "T, " * 2000)
    figure = timeline(t)
    assert_readable(figure)
    longest = max(words(figure), key=len)
    assert longest.endswith("…")
    assert len(longest) < 150
    assert any(text.startswith("line one line two $a_b$ \\frac{1}{2} 名前") for text in words(figure))
    render(lambda: timeline(t))


def test_compared_captures_share_one_scale_and_the_shorter_ends_earlier() -> None:
    slow, fast = Tables(), Tables()
    slow.add("kernels", 5_000_000, 15_000_000)
    fast.add("kernels", 70_000_000, 74_000_000)
    figure = compare_timelines([("baseline", slow, None), ("improved", fast, None)])
    assert figure.axes[0].get_xlim() == (0, 10)
    found = {item.text: item.box for item in texts(figure)}
    assert {"baseline", "improved", "10.0 ms", "4.00 ms"} <= set(found)
    assert found["baseline"].y0 > found["improved"].y1
    assert found["4.00 ms"].x1 < found["10.0 ms"].x1
    assert max(b for _, b in boxes(figure, "kernel")[1:]) == pytest.approx(4, abs=0.05)


def test_windows_of_compared_captures_can_be_given() -> None:
    report = training(2)
    start, _ = report.window()
    figure = compare_timelines(
        [("a", report, (start, start + 1_000_000)), ("b", report, (start, start + 2_000_000))]
    )
    assert figure.axes[0].get_xlim() == (0, 2)


def test_plain_tables_can_be_drawn_into_any_axes() -> None:
    figure = Figure(figsize=(7.5, 1.5), layout=None)
    axes = figure.add_axes((0.2, 0.3, 0.6, 0.6))
    rows = (
        Row("one", make_bars([0, 500], [400, 900], "kernel", "k")),
        Row("two", make_bars([100], [200], "nccl")),
    )
    drawn = draw_timeline(axes, [Group(rows, title="GPU 0", idle_share=0.2)], (0, 1000))
    assert drawn.roles == {"kernel", "nccl"}
    assert {"one", "two", "GPU 0", "idle 20%"} <= set(words(figure))


def test_the_key_explains_only_what_the_rows_do_not() -> None:
    key = words(timeline(pipeline()))
    assert "launch call" in key
    assert "copy to the GPU" not in key
    assert "copy to the GPU" in words(timeline(pipeline(), copies="in streams"))


def test_the_key_leaves_out_what_cannot_be_seen() -> None:
    t = Tables()
    t.add("kernels", 0, 1_000_000)
    t.add("kernels", 1_000_100, 2_000_000, name="ncclKernel_AllReduce", stream=7)
    for i in range(10):
        t.add("kernels", 2_000_000 + i * 1000, 2_000_900 + i * 1000)
    t.add("memsets", 2_010_000, 2_010_001)
    assert "communication kernel" in words(timeline(t))
    assert "memset" not in words(timeline(t))


def test_the_rows_asked_for_are_the_rows_shown() -> None:
    figure = timeline(training(), rows=("streams",))
    assert not {"NVTX", "CUDA API"} & set(words(figure))
    assert not [text for text in words(timeline(training(), annotate_idle=False)) if text.startswith("idle")]


def test_height_follows_from_the_rows() -> None:
    heights = [timeline(data_parallel(n)).get_size_inches()[1] for n in (1, 2, 4)]
    assert heights[0] < heights[1] < heights[2] < 8
