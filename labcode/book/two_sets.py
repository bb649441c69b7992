"""Two capture sets for a page that compares them: the sets at hand in, tables of claims and kernels out.

A thin set will do, for only records and recorded claims are read.
"""

from dataclasses import dataclass
from statistics import median

import pandas as pd

from labcode import store
from labcode.analysis.compare.sets import compare_sets
from labcode.book.provenance import set_labels
from labcode.store import CaptureSet, read_claims

PARTS = {
    "index": "Start",
    "start": "Start",
    "foundations": "Start",
    "nsys": "Nsight Systems",
    "advanced": "Advanced Nsight Systems",
    "compute": "Nsight Compute",
    "pytorch": "PyTorch profiler",
    "lm": "A language model",
    "energy": "Energy",
    "scaling": "Scaling",
    "serving": "Serving",
}
WAYS = {  # rungs of the decoder's ladder, as pages name them
    "growing": "plain loop",
    "static": "cache of fixed size",
    "graph": "the same in one graph",
    "kernels": "five kernels a layer",
    "early": "five kernels, launched early",
    "streamed": "one kernel a token",
    "short ring": "one kernel, 8 slots",
    "int8": "five kernels, int8",
    "fp8": "five kernels, fp8",
}
_BENCH = "kernel_bench"
_NEEDED = (_BENCH, "ceilings")
_COPY = "ceiling"
_PRODUCTS, _ATTENTION, _DECODE, _RATE = "gemm_bench", "attention_bench", "inference_ladder", "_tflop_per_s"
_LONG_US, _LONG_TOKENS = 100.0, 4096  # from here on a kernel's own time counts, not what starting it takes


@dataclass(frozen=True)
class Pair:
    """Two sets, the one with the faster device copy first: their labels, and how many times as fast it is.

    ``alone`` says that there is one set only, which is then both.
    """

    names: tuple[str, str]
    labels: tuple[str, str]
    copy_gb_per_s: tuple[float, float]
    alone: bool

    @property
    def scale(self) -> float:
        """The faster copy by the slower."""
        return self.copy_gb_per_s[0] / self.copy_gb_per_s[1]

    def sets(self) -> tuple[CaptureSet, CaptureSet]:
        """Both sets, opened."""
        return store.load_set(self.names[0]), store.load_set(self.names[1])


def pair() -> Pair:
    """The set that the book is built around and another one: the shipped one or, beside that, the first that
    has records of the kernels and claims.
    """
    current = store.current_set()
    others = [name for name in (store.SHIPPED_SET, *store.list_sets()) if name != current and _usable(name)]
    chosen = [current if _usable(current) else store.SHIPPED_SET, *others[:1]]
    found = sorted(((_copy(name), name) for name in dict.fromkeys(chosen)), reverse=True)
    (first_copy, first), (second_copy, second) = found[0], found[-1]
    labels = set_labels()
    return Pair((first, second), (labels[first], labels[second]), (first_copy, second_copy), first == second)


def kernels(of: Pair) -> pd.DataFrame:
    """Every kernel of the bench that both sets timed, libraries included.

    Columns: topic, kernel, problem, name, kind ('step' or 'library'); first and second, the shares of each
    GPU's own copy; time_ratio, the time on the second by that on the first.
    """
    index = ["topic", "kernel", "problem", "name", "kind"]
    first, second = (_rows(captures).set_index(index) for captures in of.sets())
    both = first.add_suffix("_1").join(second.add_suffix("_2"), how="inner").reset_index()
    both = both[both["kind"] != _COPY]
    return both[index].assign(
        first=both["ratio_to_copy_1"],
        second=both["ratio_to_copy_2"],
        time_ratio=both["time_us_2"] / both["time_us_1"],
    )


def computing(of: Pair) -> pd.DataFrame:
    """Every product and attention that both sets timed and that took a while; empty where a set has none.

    Columns: group, problem, name, library; first and second in TFLOP/s, ratio the second by the first.
    """
    found = [_products(captures) | _attention(captures) for captures in of.sets()]
    both = [(key, found[0][key], found[1][key]) for key in found[0] if key in found[1]]
    rows = [
        (*key, library, first, second, second / first)
        for key, (first, time_us, library), (second, _, _) in both
        if time_us >= _LONG_US
    ]
    return pd.DataFrame(rows, columns=["group", "problem", "name", "library", "first", "second", "ratio"])


def decoding(of: Pair) -> pd.DataFrame:
    """Ways to decode that both sets timed, and a line for reading memory; empty where a set has none.

    Columns: way; first and second in ms per token (GB/s of reading); ratio, the time on the second by that on
    the first; of_roof_1 and of_roof_2, the time by that of reading the way's bytes.
    """
    tables = []
    for captures in of.sets():
        if _DECODE not in captures.experiments:
            return pd.DataFrame(columns=["way", "first", "second", "ratio", "of_roof_1", "of_roof_2"])
        results = captures.record(_DECODE, "record")["results"]
        ways = pd.DataFrame(
            {
                way: {
                    "ms": median(one["token_ms"]),
                    "roof": one["read_bytes"] / results["read_gb_per_s"] / 1e6,
                }
                for way, one in results["rungs"].items()
            }
        ).T
        tables.append(ways.assign(of_roof=ways["ms"] / ways["roof"]))
    both = tables[0].add_suffix("_1").join(tables[1].add_suffix("_2"), how="inner")
    both = both.assign(first=both["ms_1"], second=both["ms_2"], ratio=both["ms_2"] / both["ms_1"])
    columns = ["way", "first", "second", "ratio", "of_roof_1", "of_roof_2"]
    return both.rename(index=WAYS).rename_axis("way").reset_index()[columns]


def _products(captures: CaptureSet) -> dict[tuple[str, str, str], tuple[float, float, bool]]:
    """TFLOP/s, µs, and whether it is a library's, of every step of the products, by group, problem, name."""
    found = {}
    for run in captures.experiments[_PRODUCTS].runs if _PRODUCTS in captures.experiments else ():
        results = captures.record(_PRODUCTS, run)["results"]
        kind, _, problem = run.partition("_")
        for key, value in results.items():
            if key.endswith(_RATE):
                name = key.removesuffix(_RATE)
                where = (f"{kind} matmuls", problem, name.replace("_", " "))
                found[where] = (float(value), float(results[f"{name}_us"]), name == "cublas")
    return found


def _attention(captures: CaptureSet) -> dict[tuple[str, str, str], tuple[float, float, bool]]:
    """The same of every implementation of attention on long sequences."""
    found = {}
    for run in captures.experiments[_ATTENTION].runs if _ATTENTION in captures.experiments else ():
        for row in captures.record(_ATTENTION, run)["results"]["rows"]:
            if row.get("tflop_per_s") and row["length"] >= _LONG_TOKENS:
                problem = f"{row['dtype']}, {row['length']} × {row['dim']}, {row['mask']}"
                group = f"attention, {'fp32' if row['dtype'] == 'float32' else '16 bits'}"
                where = (group, problem, row["implementation"].replace("_", " "))
                found[where] = (row["tflop_per_s"], row["time_us"], row["kind"] == "library")
    return found


def claims(of: Pair) -> pd.DataFrame:
    """Every claim that both sets record.

    Columns: page, part, text, change ('turns over', 'moved', 'same'), moved (by what two equal runs differ);
    first and second, the values as printed; ratio, the second by the first; bound, host. Those that turn over
    come first, then those that moved most.
    """
    recorded = [read_claims(store.claims_path(name)) for name in of.names]
    shared = [key for key in recorded[0] if key in recorded[1] and key.split("/")[0].split("#")[0] in PARTS]
    table = pd.DataFrame(
        {
            "page": [key.split("#")[0] for key in shared],
            "part": [PARTS[key.split("/")[0].split("#")[0]] for key in shared],
            "text": [recorded[0][key].text for key in shared],
            "first": [_mark(recorded[0][key]) for key in shared],
            "second": [_mark(recorded[1][key]) for key in shared],
            "bound": [recorded[0][key].bound for key in shared],
            "host": [recorded[0][key].host for key in shared],
        },
        index=shared,
    )
    if of.alone:
        return table.assign(change="same", moved=0.0, ratio=1.0)
    rows = compare_sets(*of.names).rows
    compared = rows[rows["kind"] == "claim"].set_index("where")[["change", "moved", "ratio"]]
    return table.join(compared).loc[[key for key in compared.index if key in table.index]]


def _mark(claim: store.Claim) -> str:
    return f"{claim.mark} {claim.shown}"


def _rows(captures: CaptureSet) -> pd.DataFrame:
    return pd.concat(
        pd.DataFrame(captures.record(_BENCH, run)["results"]["rows"]).assign(topic=run)
        for run in captures.experiments[_BENCH].runs
    )


def _usable(name: str) -> bool:
    return {*_NEEDED} <= {*store.load_set(name).experiments} and bool(read_claims(store.claims_path(name)))


def _copy(name: str) -> float:
    rows = _rows(store.load_set(name))
    return float(rows.loc[rows["kind"] == _COPY, "throughput_gb_per_s"].max())
