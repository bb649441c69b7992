"""A page in; the drawing that it opens with out: rows of boxes that show what the page asks about.

They hold no data and no measured number, and nothing that answers a prediction: lengths mean no more than
their order.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import BOX_IN, box, canvas, lane, shade, text
from labcode.figures.style import NARROW_IN, is_narrow, styled, width_in

LEFT, RIGHT = 1.35, 7.4
_UNITS = 10.0  # of a row's length
_ROW_IN, _TOP_IN = 0.36, 0.24
_MARGIN_IN, _LINES_IN = 0.04, 0.38  # beside the rows; of a box with two lines
NARROW_UNIT_IN = (NARROW_IN - 2 * _MARGIN_IN) / _UNITS
NARROW_ROOM_IN = 0.03  # beside words in a box

Box = tuple[float, float, str, str] | tuple[float, float, str, str, float]  # from, to, words, role, height
Rows = tuple[tuple[str, tuple[Box, ...]], ...]

WAITS = "waits"  # a role of its own: time in which nothing happens


def _chain(*words: str, role: str = "nvtx2") -> tuple[Box, ...]:
    """Boxes of one length, one after the other."""
    each = _UNITS / len(words)
    return tuple((each * n, each * (n + 1) - 0.12, word, role) for n, word in enumerate(words))


def _repeated(word: str, role: str, *starts: float, length: float) -> tuple[Box, ...]:
    return tuple((start, start + length, word, role) for start in starts)


OPENINGS: dict[str, Rows] = {
    "advanced/comparing": (
        (
            "before",
            ((0, 2.3, "step", "baseline"), (2.3, 5.1, "step", "baseline"), (5.1, 7.5, "step", "baseline")),
        ),
        (
            "after",
            ((0, 2.1, "step", "improved"), (2.1, 4.6, "step", "improved"), (4.6, 6.8, "step", "improved")),
        ),
    ),
    "advanced/cpu-sampling": (
        ("a trace", ((0, 5.6, "decode", "nvtx1"), (5.6, 10, "transform", "nvtx2"))),
        ("inside of it", tuple((1.25 * n, 1.25 * n + 1.2, "?", "idle") for n in range(8))),
        ("samples", tuple((0.5 * n, 0.5 * n + 0.12, "", "cpu") for n in range(20))),
    ),
    "advanced/dataloader": (
        (
            "worker 1",
            (
                (0, 1.4, "read", "series3"),
                (1.4, 4.4, "decode", "series2"),
                (4.4, 6.4, "transform", "series1"),
            ),
        ),
        (
            "worker 2",
            (
                (0.4, 1.8, "read", "series3"),
                (1.8, 4.8, "decode", "series2"),
                (4.8, 6.8, "transform", "series1"),
            ),
        ),
        (
            "loop",
            (
                (0, 6.8, "waits for a batch", WAITS),
                (6.8, 8, "to the GPU", "h2d"),
                (8, 10, "launches", "launch"),
            ),
        ),
        ("GPU", ((0, 6.8, "idle", WAITS), (6.8, 8, "copy", "h2d"), (8, 10, "kernels", "kernel"))),
    ),
    "advanced/os-runtime": (
        (
            "worker 1",
            ((0, 1.6, "read", "series3"), (1.6, 3.6, "decode", "series2"), (3.6, 5.2, "note it", "call")),
        ),
        (
            "worker 2",
            ((0.6, 2.2, "read", "series3"), (2.2, 4.2, "decode", "series2"), (4.2, 5.8, "note it", "call")),
        ),
        ("loop", ((0, 8, "waits for a batch", WAITS), (8, 10, "step", "nvtx1"))),
        ("GPU", ((0, 8, "idle", WAITS), (8, 10, "kernels", "kernel"))),
    ),
    "advanced/python-backtraces": (
        ("your program", ((0, 3, "a line of Python", "cpu"),)),
        ("PyTorch", ((1.2, 4.2, "an operator", "call"),)),
        ("CUDA", ((2.6, 4.6, "a launch call", "launch"),)),
        ("GPU", ((5.4, 10, "a kernel with a library's name", "kernel"),)),
    ),
    "advanced/sql": (
        ("a kernel's row", _chain("start", "end", "correlationId: 812", "shortName: 17", role="kernel")),
        ("a call's row", _chain("start", "end", "correlationId: 812", "nameId: 9", role="launch")),
        ("StringIds", _chain("9: cudaLaunchKernel", "17: gemm_kernel", role="nvtx2")),
    ),
    "advanced/stats-command-line": (
        (
            "events",
            (
                (0, 1.5, "launch", "launch"),
                (1.5, 4.2, "kernel", "kernel"),
                (4.2, 6, "copy", "d2h"),
                (6, 7.5, "launch", "launch"),
                (7.5, 10, "kernel", "kernel"),
            ),
        ),
        ("a sum", ((0, 10, "cudaLaunchKernel: calls, total, mean, median", "launch"),)),
        ("another", ((0, 10, "the kernel's name: total, mean, median", "kernel"),)),
        ("a third", ((0, 10, "copies to the host: total, mean, median", "d2h"),)),
    ),
    "compute/blackwell": (
        (
            "Hopper",
            (
                (0, 2.4, "TMA: a tile", "h2d"),
                (2.5, 4.9, "128 threads: wgmma", "kernel"),
                (5, 7.4, "sums in registers", "series1"),
                (7.5, 9.9, "the same: write", "d2h"),
            ),
        ),
        (
            "Blackwell",
            (
                (0, 2.4, "TMA: a tile", "h2d"),
                (2.5, 4.9, "1 thread: tcgen05", "kernel"),
                (5, 7.4, "sums in TMEM", "improved"),
                (7.5, 9.9, "four warps: write", "d2h"),
            ),
        ),
    ),
    "compute/compute-metrics": (
        ("of all cycles", ((0, 10, "a warp is there", "nvtx1"),)),
        ("of these", ((0, 8, "one of its instructions could issue", "nvtx2"),)),
        ("of these", ((0, 6, "its lanes are all active", "nvtx3"),)),
        ("of these", ((0, 4, "its work is needed", "improved"),)),
    ),
    "compute/memory-metrics": (
        ("on the way", _chain("a warp", "L1", "L2", "DRAM", role="nvtx1")),
        ("is counted", _chain("instructions", "requests, sectors", "sectors", "bytes", role="kernel")),
    ),
    "compute/occupancy": (
        ("registers", (*_repeated("block", "series1", 0, 4.2, length=4.2), (8.4, 10, "too few left", WAITS))),
        ("shared memory", (*_repeated("block", "series2", 0, 3, length=3), (6, 10, "free", "idle"))),
        ("warp slots", (*_repeated("block", "series3", 0, 2.5, length=2.5), (5, 10, "free", "idle"))),
        ("block slots", (*_repeated("1", "series4", 0, 1, length=1), (2, 10, "free", "idle"))),
    ),
    "compute/nsight-compute": (
        ("a kernel", ((0, 8, "its occupancy", "nvtx2"),)),
        ("its twin", ((0, 2.6, "occupancy", "nvtx2"),)),
        ("their times", ((0, 10, "?", WAITS),)),
    ),
    "compute/optimization-loop": (
        ("before", _chain("a belief", "a number", "one change", role="nvtx1")),
        ("after", _chain("the time", "counters", "keep or drop")),
    ),
    "compute/roofline": (
        ("A: bytes", ((0, 9, "time that the memory needs", "h2d"),)),
        ("A: operations", ((0, 1.5, "", "kernel"),)),
        ("B: bytes", ((0, 2.5, "", "h2d"),)),
        ("B: operations", ((0, 8, "time that the arithmetic needs", "kernel"),)),
    ),
    "compute/sass": (
        ("C++", ((0, 10, "out[i] = in[i]", "nvtx1"),)),
        ("PTX", _chain("index", "ld.global", "st.global", role="nvtx2")),
        ("SASS", (*_repeated("?", "idle", *(0.9 * n for n in range(11)), length=0.85),)),
    ),
    "compute/softmax-rmsnorm": (
        (
            "three passes",
            ((0, 3, "largest", "kernel"), (3, 6, "sum", "kernel"), (6, 9, "result", "improved")),
        ),
        ("two passes", ((0, 3, "largest and sum", "kernel"), (3, 6, "result", "improved"))),
        ("row kept", ((0, 3, "read once", "kernel"), (3, 4.2, "result", "improved"))),
    ),
    "compute/stalls": (
        (
            "warp 1",
            (
                *_repeated("", "kernel", 0, 4, 8, length=0.5),
                (0.5, 4, "waits", WAITS),
                (4.5, 8, "waits", WAITS),
            ),
        ),
        (
            "warp 2",
            (
                *_repeated("", "kernel", 1, 5, 9, length=0.5),
                (1.5, 5, "waits", WAITS),
                (5.5, 9, "waits", WAITS),
            ),
        ),
        ("scheduler", _repeated("issue", "improved", 0, 1, 4, 5, 8, 9, length=0.98)),
    ),
    "compute/sum": (
        ("numbers", _chain(*"abcdefgh", role="kernel")),
        ("pairs", _chain("a + b", "c + d", "e + f", "g + h", role="nvtx1")),
        ("fours", _chain("a + b + c + d", "e + f + g + h", role="nvtx2")),
        ("sum", ((0, 9.88, "one address", "sync"),)),
    ),
    "compute/transpose": (
        ("a row is read", _chain(*"abcdefgh", role="h2d")),
        ("written to", tuple((1.25 * n, 1.25 * n + 0.3, "", "d2h") for n in range(8))),
    ),
    "energy/efficiency": (
        ("A", ((0, 9, "long, at low power", "baseline", 0.2),)),
        ("B", ((0, 4.5, "short, at high power", "improved", 0.33),)),
    ),
    "energy/language-model": (
        ("a step", _chain("forward", "backward", "optimizer", role="nvtx1")),
        ("uses joules for", _chain("operations", "bytes that move", "waiting", role="kernel")),
    ),
    "foundations/measuring": (
        ("CPU", ((0, 1, "clock", "cpu"), (1, 2.7, "launch", "launch"), (2.7, 3.7, "clock", "cpu"))),
        ("GPU", ((0, 2.3, "", WAITS), (2.3, 10, "the kernel that was to be timed", "kernel"))),
    ),
    "lm/attention": (
        ("attention", _chain("Q times K: matmul", "softmax", "times V: matmul", role="kernel")),
        ("for each pair", _chain("multiply, add", "exponential, sum, divide", "multiply, add", role="nvtx2")),
    ),
    "lm/memory": (
        ("stays", _chain("parameters", "gradients", "first moment", "second moment", role="series1")),
        ("comes and goes", _chain("block 1", "block 2", "…", "block n", "logits", role="series3")),
    ),
    "lm/precision": (
        (
            "fp32",
            (
                (0, 0.8, "sign", "idle"),
                (0.8, 3.2, "8 bits of exponent", "series1"),
                (3.2, 10, "23 of fraction", "series3"),
            ),
        ),
        ("TF32", ((0, 0.8, "", "idle"), (0.8, 3.2, "8", "series1"), (3.2, 6.16, "10", "series3"))),
        ("bf16", ((0, 0.8, "", "idle"), (0.8, 3.2, "8", "series1"), (3.2, 5.27, "7", "series3"))),
    ),
    "nsys/gpu-metrics": (
        ("the timeline", ((0, 5, "kernel", "kernel"), (5, 10, "kernel", "kernel"))),
        ("the chip", ((0, 5, "?", WAITS), (5, 10, "?", WAITS))),
    ),
    "nsys/kernel-overlap": (
        ("one stream", (*_repeated("kernel", "kernel", 0, 2, 4, 6, 8, length=1.9),)),
        ("SM 1", (*_repeated("busy", "kernel", 0, 2, 4, 6, 8, length=1.9),)),
        ("SM 2 and on", ((0, 10, "nothing to do", WAITS),)),
    ),
    "nsys/memory-timeline": (
        (
            "in turn",
            ((0, 3.2, "copy in", "h2d"), (3.2, 6.6, "kernel", "kernel"), (6.6, 9.8, "copy out", "d2h")),
        ),
        ("in pieces", _repeated("in", "h2d", 0, 1, 2, 3, length=0.95)),
        ("", _repeated("kernel", "kernel", 1, 2.1, 3.2, 4.3, length=1.09)),
        ("", _repeated("out", "d2h", 2.1, 3.2, 4.3, 5.4, length=0.95)),
    ),
    "nsys/multi-gpu": (
        ("GPU 0", ((0, 2, "forward", "kernel"), (2, 6, "backward", "kernel"), (6, 9, "all-reduce", "nccl"))),
        ("GPU 1", ((0, 2, "forward", "kernel"), (2, 6, "backward", "kernel"), (6, 9, "all-reduce", "nccl"))),
        ("or so", ((0, 2, "forward", "kernel"), (2, 6, "backward", "kernel"))),
        ("", ((3, 6.6, "all-reduces, beside it", "nccl"),)),
    ),
    "nsys/timeline-basics": (
        (
            "CPU",
            (
                (0, 4, "prepare a batch", "cpu"),
                (4, 5, "copy", "copy_call"),
                (5, 7, "launches", "launch"),
                (7, 10, "?", WAITS),
            ),
        ),
        ("GPU", ((0, 4, "?", WAITS), (4, 5, "copy", "h2d"), (5.3, 10, "kernels", "kernel"))),
    ),
    "pytorch/bottleneck-hunt": (
        (
            "CPU",
            (
                (0, 3, "Python", "cpu"),
                (3, 5, "launches", "launch"),
                (5, 8, "waits for the GPU", WAITS),
                (8, 10, "Python", "cpu"),
            ),
        ),
        ("GPU", ((0, 3, "waits for the CPU", WAITS), (3.3, 8, "kernels", "kernel"), (8, 10, "waits", WAITS))),
    ),
    "pytorch/compile": (
        ("CPU", _repeated("launch", "launch", 0, 1.5, 3, 4.5, 6, 7.5, length=1.3)),
        (
            "GPU",
            tuple(
                (0.7 + 1.5 * n, 2.05 + 1.5 * n, word, "kernel")
                for n, word in enumerate(("matmul", "cast", "norm", "GELU", "add", "matmul"))
            ),
        ),
    ),
    "pytorch/convolutions": (
        ("you ask for", ((0, 10, "a convolution: shape, type, layout", "nvtx1"),)),
        ("library", _chain("direct", "implicit matmul", "Winograd", "FFT", role="idle")),
        ("GPU", ((0, 10, "one kernel, whose name says which", "kernel"),)),
    ),
    "pytorch/distributed": (
        (
            "rank 0",
            (
                (0, 2, "forward", "kernel"),
                (2, 6, "backward", "kernel"),
                (6, 8.4, "all-reduce", "nccl"),
                (8.4, 10, "optimizer", "kernel"),
            ),
        ),
        (
            "rank 1",
            (
                (0, 2, "forward", "kernel"),
                (2, 6, "backward", "kernel"),
                (6, 8.4, "all-reduce", "nccl"),
                (8.4, 10, "optimizer", "kernel"),
            ),
        ),
    ),
    "pytorch/overhead": (
        ("the step", ((0, 6, "what the program does", "kernel"),)),
        ("recorded", ((0, 6, "what the program does", "kernel"), (6, 7.6, "and more?", WAITS))),
    ),
    "lm/llama-one-gpu": (
        ("as found", ((0, 3.2, "matmuls", "kernel"), (3.2, 10, "bytes moved in between", "h2d"))),
        ("fixed", ((0, 3.2, "matmuls", "kernel"), (3.2, 4.2, "", "h2d"), (4.2, 5.2, "?", WAITS))),
    ),
    "lm/llama-two-gpus": (
        ("GPU 0", ((0, 6, "half of the batch", "kernel"), (6, 7.5, "what shows", WAITS))),
        (
            "gathers, sums",
            ((0.4, 2.4, "weights", "nccl"), (2.8, 4.8, "weights", "nccl"), (5.2, 7.5, "gradients", "nccl")),
        ),
    ),
    "reference/two-gpus": (
        ("one GPU", ((0, 4, "multiprocessors", "kernel"), (4.2, 10, "memory", "h2d"))),
        ("the other", ((0, 4, "multiprocessors", "kernel"), (4.2, 8.2, "memory", "h2d"))),
    ),
    "scaling/baseline": (
        ("one GPU", ((0, 10, "the whole batch", "kernel"),)),
        ("one of eight", ((0, 1.25, "", "kernel"), (1.25, 2.25, "?", WAITS))),
    ),
    "scaling/communication": (
        ("a small tensor", ((0, 2.5, "calls, hops", "call"), (2.5, 2.8, "", "nccl"))),
        ("a large tensor", ((0, 2.5, "calls, hops", "call"), (2.5, 10, "bytes over the links", "nccl"))),
    ),
    "scaling/four": (
        ("forecast", ((0, 6, "computing", "kernel"), (6, 8, "sending", "nccl"))),
        (
            "measured",
            ((0, 6, "computing?", "kernel"), (6, 8, "sending?", "nccl"), (8, 9.4, "?", WAITS)),
        ),
    ),
    "scaling/strong-and-weak": (
        ("one GPU", ((0, 6, "the batch", "kernel"),)),
        ("strong: two", ((0, 3, "half of it each", "kernel"), (3, 4, "?", WAITS))),
        ("weak: two", ((0, 6, "a batch each", "kernel"), (6, 7, "?", WAITS))),
    ),
    "scaling/thousand-ranks": (
        ("report 0", ((3, 5.4, "one all-reduce", "nccl"),)),
        ("report 1", ((5.2, 7.6, "the same one", "nccl"),)),
        ("report 2", ((1, 3.4, "the same one", "nccl"),)),
    ),
    "serving/prefill-decode": (
        (
            "prompt first",
            (
                *_repeated("token", "series3", 0, 1.15, length=1.1),
                (2.3, 6.5, "somebody's long prompt", "kernel"),
                *_repeated("token", "series3", 6.55, 7.7, 8.85, length=1.1),
            ),
        ),
        (
            "in chunks",
            (
                *_repeated("token", "series3", 0, 1.15, 3.65, 6.15, 8.65, length=1.1),
                *_repeated("chunk", "kernel", 2.3, 4.8, 7.3, length=1.3),
            ),
        ),
        ("prompt GPU", ((2.3, 6.5, "somebody's long prompt", "kernel"), (6.55, 8.15, "cache: ?", "p2p"))),
        ("token GPU", _repeated("token", "series3", *(1.15 * n for n in range(8)), length=1.1)),
    ),
}


@styled
def opening(page: str) -> Figure:
    """What a page opens with; on narrow screens the same rows, with their names above them."""
    if is_narrow():
        return _narrow(page)
    rows = OPENINGS[page]
    figure, axes = canvas(2 * _TOP_IN + _ROW_IN * (len(rows) - 1))
    for number, (label, boxes) in enumerate(rows):
        y = _TOP_IN + _ROW_IN * number
        lane(axes, y, label, LEFT, RIGHT)
        for one in boxes:
            _draw(axes, one, y, LEFT + 0.1, (RIGHT - LEFT - 0.1) / _UNITS)
    return figure


def _narrow(page: str) -> Figure:
    rows = [(label, [_wrapped(one) for one in boxes]) for label, boxes in OPENINGS[page]]
    heights = [max([BOX_IN, *(_LINES_IN for _, _, words, *_ in boxes if "\n" in words)]) for _, boxes in rows]
    figure, axes = canvas(sum(heights) + sum(_gap(label) for label, _ in rows) + _MARGIN_IN, NARROW_IN)
    y = 0.0
    for (label, boxes), height in zip(rows, heights, strict=True):
        y += _gap(label)
        text(axes, _MARGIN_IN, y - 0.12, label)
        for one in boxes:
            _draw(axes, one, y + height / 2, _MARGIN_IN, NARROW_UNIT_IN, height)
        y += height
    return figure


def _gap(label: str) -> float:
    return 0.3 if label else 0.06


def _draw(axes: Axes, one: Box, y: float, left: float, unit: float, height: float = BOX_IN) -> None:
    start, end, words, role, *own = one
    first, last = left + unit * start, left + unit * end
    if role == WAITS:
        shade(axes, first, last, y, words, height=height)
    else:
        box(axes, first, last, y, words, role, height=own[0] if own else height)


def _wrapped(one: Box) -> Box:
    """A box with its words on as many lines as its narrow form needs."""
    start, end, words, *rest = one
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if width_in(longer) <= NARROW_UNIT_IN * (end - start) - NARROW_ROOM_IN or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return (start, end, "\n".join(lines), *rest)
