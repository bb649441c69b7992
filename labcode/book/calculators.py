"""Calculators on a page: a kind and the values of each GPU in; sliders, and answers by the browser, out.

``book.calculator("roofline", {"H200": {...}})`` shows the calculator of that name of
`labcode.analysis.arithmetic`; the cell gives what it starts from, from data sheets and captures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labcode.analysis.arithmetic import CALCULATORS
from labcode.book import display
from labcode.show import html, page_data

WITHOUT_SCRIPTS = (
    "The calculator computes in the browser: open this page in the HTML edition with scripts allowed."
)


@dataclass(frozen=True)
class Input:
    """A number to set: its range, on a logarithmic scale where ``log``; in steps of ``step`` where whole."""

    key: str
    label: str
    unit: str
    low: float
    high: float
    log: bool = True
    step: float = 0.0


@dataclass(frozen=True)
class Output:
    """A number that is answered; a ``unit`` of % shows a share, ``share`` a shape of so many digits."""

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Calculator:
    """What is shown around the arithmetic; ``curve``: an input, and the output that is drawn over it."""

    title: str
    formula: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    curve: tuple[str, str]


SHOWN = {
    "roofline": Calculator(
        "Where does a kernel lie below the roof?",
        "attainable = min(peak, intensity · bandwidth); ridge = peak ÷ bandwidth",
        (
            Input("intensity", "arithmetic intensity", "FLOP/byte", 0.01, 10_000),
            Input("peak", "peak of the arithmetic", "TFLOP/s", 1, 3000),
            Input("bandwidth", "memory bandwidth", "GB/s", 100, 20_000),
        ),
        (
            Output("attainable", "attainable", "TFLOP/s"),
            Output("share", "of the peak", "%"),
            Output("ridge", "ridge", "FLOP/byte"),
            Output("bytes_ms", "memory's time per gigabyte", "ms"),
            Output("flops_ms", "arithmetic's time per gigabyte", "ms"),
        ),
        ("intensity", "attainable"),
    ),
    "step": Calculator(
        "How good is a step's time?",
        "FLOPs = 3 · (layers · (24 · d² · tokens + 4 · d · context · tokens) + 2 · d · vocabulary · tokens); "
        "MFU = FLOPs ÷ (time · peak)",
        (
            Input("d_model", "width of the model, d", "", 256, 16_384, step=64),
            Input("layers", "layers", "", 4, 128, log=False, step=1),
            Input("batch", "sequences", "", 1, 256, step=1),
            Input("context", "tokens per sequence", "", 128, 16_384, step=128),
            Input("peak", "peak of the arithmetic", "TFLOP/s", 1, 3000),
            Input("step_ms", "measured time of a step", "ms", 1, 100_000),
        ),
        (
            Output("mfu", "MFU", "%"),
            Output("least_ms", "least time, at the peak", "ms"),
            Output("tflop", "FLOPs per step", "TFLOP"),
            Output("tokens_per_s", "tokens per second", ""),
        ),
        ("step_ms", "mfu"),
    ),
    "cache": Calculator(
        "How many sequences fit, and how fast do they get tokens?",
        "cache per sequence = 2 · layers · width · bytes · tokens; "
        "step = max((weights + sequences · cache) ÷ bandwidth, 2 · parameters · sequences ÷ peak)",
        (
            Input("parameters", "parameters", "billion", 0.1, 1000),
            Input("weight_bytes", "bytes per weight", "", 0.5, 4, step=0.5),
            Input("layers", "layers", "", 4, 128, log=False, step=1),
            Input("kv_width", "heads of keys × their width", "", 128, 16_384, step=128),
            Input("value_bytes", "bytes per value in the cache", "", 0.5, 4, step=0.5),
            Input("context", "tokens in each cache", "", 64, 131_072, step=64),
            Input("batch", "sequences", "", 1, 4096, step=1),
            Input("memory", "the GPU's memory", "GB", 8, 300),
            Input("bandwidth", "memory bandwidth", "GB/s", 100, 20_000),
            Input("peak", "peak of the arithmetic", "TFLOP/s", 10, 3000),
        ),
        (
            Output("fits", "sequences that fit"),
            Output("needs_gb", "memory for those asked", "GB"),
            Output("sequence_mb", "cache per sequence", "MB"),
            Output("weights_gb", "weights", "GB"),
            Output("step_ms", "time of a step", "ms"),
            Output("tokens_per_s", "tokens per second", ""),
            Output("flops_share", "arithmetic's time by memory's", "×"),
        ),
        ("batch", "tokens_per_s"),
    ),
    "allreduce": Calculator(
        "How long does an all-reduce take?",
        "t = α · √(n − 1) + 2 · (n − 1) ÷ n · bytes ÷ B, with α and B of two GPUs",
        (
            Input("count", "GPUs, n", "", 2, 1024, step=1),
            Input("mib", "size", "MiB", 0.001, 16_384),
            Input("alpha_us", "latency on two GPUs, α", "µs", 1, 1000),
            Input("gbps", "bandwidth, B", "GB/s", 1, 1000),
        ),
        (
            Output("time_us", "time", "µs"),
            Output("bus_gb_per_s", "bus bandwidth", "GB/s"),
            Output("start_share", "latency's share of the time", "%"),
            Output("half_mib", "size where both take as long", "MiB"),
        ),
        ("mib", "time_us"),
    ),
    "scaling": Calculator(
        "What do three laws give more GPUs?",
        "Amdahl: 1 ÷ (σ + (1 − σ) ÷ n); Gustafson: n − σ · (n − 1); "
        "universal: n ÷ (1 + σ · (n − 1) + κ · n · (n − 1))",
        (
            Input("count", "GPUs, n", "", 1, 4096, step=1),
            Input("serial", "serial share, σ", "", 0.0001, 1.0),
            Input("crosstalk", "cost per pair, κ", "", 1e-7, 0.1),
        ),
        (
            Output("amdahl", "speed-up by Amdahl", "×"),
            Output("gustafson", "speed-up by Gustafson", "×"),
            Output("universal", "speed-up by the universal law", "×"),
            Output("efficiency", "its efficiency", "%"),
            Output("limit", "Amdahl's limit", "×"),
            Output("best", "most useful number of GPUs, universal law"),
        ),
        ("count", "universal"),
    ),
    "queue": Calculator(
        "What does a busy server do to the slowest answers?",
        "mean wait = ρ · mean · (1 + variation²) ÷ (2 · (1 − ρ)); "
        "percentiles of M/G/1, where one request in ten is long",
        (
            Input("load", "busy share, ρ", "", 0.02, 0.98, log=False),
            Input("mean_ms", "mean time of a request", "ms", 0.1, 60_000),
            Input("variation", "standard deviation ÷ mean", "", 0, 2.9, log=False),
        ),
        (
            Output("p99_ms", "p99 of the latency", "ms"),
            Output("p50_ms", "median", "ms"),
            Output("times", "p99 ÷ median", "×"),
            Output("wait_ms", "mean wait", "ms"),
            Output("rate_per_s", "requests per second", ""),
        ),
        ("load", "p99_ms"),
    ),
    "joules": Calculator(
        "What does a token cost?",
        "energy per token = (power + idle power · (1 − busy) ÷ busy) ÷ rate",
        (
            Input("watts", "power while it works", "W", 20, 2000),
            Input("tokens_per_s", "tokens per second while it works", "", 1, 1_000_000),
            Input("load", "busy share", "", 0.02, 1, log=False),
            Input("idle_watts", "power while it waits", "W", 10, 500),
        ),
        (
            Output("token_mj", "energy per token", "mJ"),
            Output("idle_share", "of that while it waits", "%"),
            Output("tokens_per_j", "tokens per joule"),
            Output("kwh", "per million tokens", "kWh"),
        ),
        ("load", "token_mj"),
    ),
}


def calculator(
    kind: str, presets: Mapping[str, Mapping[str, float]], *, unmeasured: Sequence[str] = ()
) -> None:
    """Show a calculator with sliders; ``presets``: what to start from, by name, the first one first.

    A preset names every input, within its range; ``ValueError`` for another one. ``unmeasured`` are GPUs of
    this book that none is from, for want of a capture (`labcode.book.unrecorded`): readers are told.
    """
    one = SHOWN[kind]
    for name, values in presets.items():
        if values.keys() != {given.key for given in one.inputs}:
            raise ValueError(f"book.calculator({kind!r}): {name} gives {', '.join(values)}")
        for given in one.inputs:
            if not given.low <= values[given.key] <= given.high:
                raise ValueError(f"book.calculator({kind!r}): {name}: {given.key}={values[given.key]:g}")
    if not presets:
        raise ValueError(f"book.calculator({kind!r}): nothing to start from")
    first = {name: {key: float(f"{value:.4g}") for key, value in of.items()} for name, of in presets.items()}
    data = asdict(one) | {"kind": kind, "presets": first, "unmeasured": list(unmeasured)}
    answers = CALCULATORS[kind](next(iter(first.values())))
    plain = "; ".join(f"{out.label} {answers[out.key]:.3g} {out.unit}".strip() for out in one.outputs)
    content = {"title": one.title, "html": as_html(data), "plain": f"{one.title} {one.formula}."}
    display.show({display.CALCULATOR_MIME: content, "text/plain": f"{one.title} {plain}"})


def as_html(data: Mapping[str, Any]) -> str:
    """The container that ``calculators.js`` fills."""
    others = " and ".join(data["unmeasured"])
    told = f'<p class="lab-calculator-formula">Not measured on the {html(others)}.</p>' if others else ""
    return (
        f'<div class="lab-calculator"><script type="application/json">{page_data(data)}</script>'
        f'<p class="lab-calculator-title">{html(str(data["title"]))}</p>'
        f'<p class="lab-calculator-formula">{html(str(data["formula"]))}</p>'
        f"{told}"
        f"<noscript><p>{WITHOUT_SCRIPTS}</p></noscript></div>"
    )
