"""Where a GPU's time goes: operations and the ranges around their launch in; time by bucket, part, pass out.

All functions take one frame, whatever profiler it came from. Its columns: name; start_ns, end_ns; device;
stream; path (the names of the ranges around the launch, outermost first, joined by slashes; '' where not
known); and, where there are copies among the operations, kind ('kernel', 'memcpy', 'memset').

Times are the operations' own durations, summed; operations that run side by side count each.
"""

import re

import numpy as np
import pandas as pd

from labcode.analysis.buckets import bucket_of, in_optimizer
from labcode.analysis.timeline.joins import duration_ns

PASSES = ("forward", "backward", "optimizer")
ATTENTION_PARTS = ("scores", "mask", "softmax", "values")
_NUMBER = re.compile(r"\s*#?\d+$")
_MODULE = re.compile(r"^(?:block|layer|nn\.Module: \w+?)[ _]?(\d+)$")


def attribute(operations: pd.DataFrame) -> pd.DataFrame:
    """The operations with duration_ns, bucket, step, pass, part and module added.

    pass: the outermost of `PASSES` in the path, where a range that PyTorch's optimizers open themselves
    counts as ``optimizer`` ('' outside of all). part: the path inside of the pass without numbers, so that
    the same part of each block has one name ('block/attention/softmax'). module: the block it belongs to with
    its number ('block 3'), '' outside of blocks.
    """
    table = operations.reset_index(drop=True)
    kinds = table["kind"] if "kind" in table else pd.Series("kernel", index=table.index)
    paths = table["path"].fillna("").astype(str)
    of_path = {path: _split(path) for path in paths.unique()}
    keys = zip(table["name"].astype(str), paths, kinds.astype(str), strict=True)
    return table.assign(
        path=paths,
        duration_ns=duration_ns(table),
        bucket=pd.Series([bucket_of(*key) for key in keys], index=table.index, dtype="str"),
        **{
            column: pd.Series([of_path[path][place] for path in paths], index=table.index, dtype="str")
            for place, column in enumerate(("pass", "part", "module"))
        },
    )


def buckets(attributed: pd.DataFrame, by: tuple[str, ...] = ()) -> pd.DataFrame:
    """Time by bucket (within each group of ``by``, such as ``("pass",)``), the most first.

    The columns of ``by``; bucket; operations; time_ns; share (of the group's time). ``other`` is always
    listed, also without time.
    """
    groups: list[tuple[tuple[str, ...], pd.DataFrame]] = [((), attributed)]
    if by:
        keys = pd.MultiIndex.from_frame(attributed[list(by)])
        groups = [(key, attributed[keys == key]) for key in dict.fromkeys(keys.tolist())]
    parts = []
    for key, rows in groups:
        sums = _sums(rows, "bucket").set_index("bucket")
        if "other" not in sums.index:
            sums.loc["other"] = [0, 0]
        sums = sums.reset_index().sort_values(
            ["time_ns", "bucket"], ascending=[False, True], ignore_index=True
        )
        sums["share"] = _shares(sums["time_ns"])
        for place, column in enumerate(by):
            sums.insert(place, column, key[place])
        parts.append(sums)
    if not parts:
        return pd.DataFrame(columns=[*by, "bucket", "operations", "time_ns", "share"])
    return pd.concat(parts, ignore_index=True)


def is_model(attributed: pd.DataFrame) -> bool:
    """Whether the operations are a transformer's, by their kernels: matmuls, and attention fused or written
    out.

    Written out, it has a softmax beside two normalizations in each block, which are up to a handful of
    kernels each, and no convolution. A classifier's one softmax at the end is too few.
    """
    count = attributed["bucket"].value_counts()
    matmuls, fused, softmax, norm, conv = (
        int(count.get(name, 0)) for name in ("matmul", "attention", "softmax", "normalization", "convolution")
    )
    return matmuls > 0 and (fused > 0 or (0 < norm <= 6 * softmax and softmax <= norm and not conv))


def breakdown(attributed: pd.DataFrame) -> pd.DataFrame:
    """Time of each pass as matmuls, attention and the rest, in the order of passes, then of all: pass;
    time_ns; matmul_share, attention_share, other_share; operations.

    Attention is fused attention and softmax; where it is written out, its two products are matmuls.
    """
    rows = []
    passes = [name for name in ("", *PASSES) if (attributed["pass"] == name).any()]
    for name in [*passes, "all"] if passes != [""] else ["all"]:
        mine = attributed if name == "all" else attributed[attributed["pass"] == name]
        whole = int(mine["duration_ns"].sum())
        matmul, attended = (
            int(mine.loc[mine["bucket"].isin(some), "duration_ns"].sum())
            for some in (("matmul",), ("attention", "softmax"))
        )
        parts_ = (matmul, attended, whole - matmul - attended)
        rows.append((name or "(none)", whole, *(part / max(whole, 1) for part in parts_), len(mine)))
    columns = ["pass", "time_ns", "matmul_share", "attention_share", "other_share", "operations"]
    return pd.DataFrame(rows, columns=columns)


def named_share(attributed: pd.DataFrame) -> float:
    """The share of the GPU's time that is in a named bucket, that is not in ``other``; nan without time."""
    whole = int(attributed["duration_ns"].sum())
    other = int(attributed.loc[attributed["bucket"] == "other", "duration_ns"].sum())
    return 1 - other / whole if whole else float("nan")


def unnamed(attributed: pd.DataFrame) -> pd.DataFrame:
    """The operations in ``other`` by name, the most time first: name, operations, time_ns, share (of all)."""
    rows = _sums(attributed[attributed["bucket"] == "other"], "name")
    rows = rows.sort_values(["time_ns", "name"], ascending=[False, True], ignore_index=True)
    whole = int(attributed["duration_ns"].sum())
    return rows.assign(share=rows["time_ns"] / whole if whole else np.nan)


def kernels(attributed: pd.DataFrame, *, steps: int = 1) -> pd.DataFrame:
    """Operations by pass and name, the most time of a pass first.

    pass; bucket; operations; per_step (operations of one of ``steps``); time_ns; mean_ns; share (of the
    pass); name.
    """
    grouped = attributed.groupby(["pass", "name"], sort=False)
    table = grouped.agg(
        bucket=("bucket", "first"), operations=("name", "size"), time_ns=("duration_ns", "sum")
    ).reset_index()
    table["per_step"] = table["operations"] / steps
    table["mean_ns"] = table["time_ns"] / table["operations"]
    table["share"] = table["time_ns"] / table.groupby("pass")["time_ns"].transform("sum")
    table = table.sort_values(
        ["pass", "time_ns", "name"], key=_pass_first, ascending=[True, False, True], ignore_index=True
    )
    return table[["pass", "bucket", "operations", "per_step", "time_ns", "mean_ns", "share", "name"]]


def parts(attributed: pd.DataFrame) -> pd.DataFrame:
    """Time by pass, part and bucket: pass, part, bucket, operations, time_ns, share (of the pass).

    In the order of passes; within one the parts with the most time first, and their buckets together.
    """
    grouped = attributed.groupby(["pass", "part", "bucket"], sort=False)
    table = grouped.agg(operations=("name", "size"), time_ns=("duration_ns", "sum")).reset_index()
    table["share"] = table["time_ns"] / table.groupby("pass")["time_ns"].transform("sum")
    table["whole"] = table.groupby(["pass", "part"])["time_ns"].transform("sum")
    table = table.sort_values(
        ["pass", "whole", "part", "time_ns"],
        key=_pass_first,
        ascending=[True, False, True, False],
        ignore_index=True,
    )
    return table.drop(columns="whole")


def modules(attributed: pd.DataFrame) -> pd.DataFrame:
    """Time by pass and module, in the order they first ran: pass, module, operations, time_ns, share."""
    grouped = attributed[attributed["module"] != ""].groupby(["pass", "module"], sort=False)
    table = grouped.agg(operations=("name", "size"), time_ns=("duration_ns", "sum")).reset_index()
    table["share"] = table["time_ns"] / table.groupby("pass")["time_ns"].transform("sum")
    return table


def attention(attributed: pd.DataFrame, flops: dict[str, int], *, steps: int = 1) -> pd.DataFrame:
    """The parts of attention in the forward pass, time beside FLOPs: a row for each of `ATTENTION_PARTS`.

    ``flops`` are those of one forward pass by part (`labcode.analysis.lm.decoder.forward_flops`); the frame
    holds ``steps`` of them. part; time_ns (of one pass); time_ratio (to scores); flops; flop_ratio (to
    scores); tflops (10¹² operations a second; nan without time or FLOPs).
    """
    inside = attributed[attributed["pass"] == "forward"]
    last = inside["part"].str.rpartition("/")[2]
    times = [int(inside.loc[last == part, "duration_ns"].sum()) / steps for part in ATTENTION_PARTS]
    table = pd.DataFrame(
        {
            "part": list(ATTENTION_PARTS),
            "time_ns": np.array(times, np.float64),
            "flops": np.array([flops.get(part, 0) for part in ATTENTION_PARTS], np.int64),
        }
    )
    table.insert(2, "time_ratio", table["time_ns"] / _or_nan(table["time_ns"].iloc[0]))
    table["flop_ratio"] = table["flops"] / _or_nan(table["flops"].iloc[0])
    rate = table["flops"] / table["time_ns"].where(table["time_ns"] > 0) / 1e3
    return table.assign(tflops=rate.where(table["flops"] > 0))


def _split(path: str) -> tuple[str, str, str]:
    """Pass, part and module of a path."""
    names = path.split("/") if path else []
    place = next((index for index, name in enumerate(names) if name in PASSES or in_optimizer(name)), -1)
    inner = names[place + 1 :] if place >= 0 else names
    module = next((name for name in inner if _MODULE.match(name)), "")
    return (
        "" if place < 0 else names[place] if names[place] in PASSES else "optimizer",
        "/".join(_NUMBER.sub("", name) for name in inner),
        module,
    )


def _pass_first(column: pd.Series) -> pd.Series:
    """For sorting: passes in the order in which they run."""
    if column.name != "pass":
        return column
    return column.map({name: place for place, name in enumerate(PASSES)}).fillna(len(PASSES))


def _sums(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    grouped = rows.groupby(column, sort=False)
    return grouped.agg(operations=("name", "size"), time_ns=("duration_ns", "sum")).reset_index()


def _shares(times: pd.Series) -> pd.Series:
    whole = int(times.sum())
    return times / whole if whole else pd.Series(np.nan, index=times.index)


def _or_nan(value: float) -> float:
    return float(value) if value else float("nan")
