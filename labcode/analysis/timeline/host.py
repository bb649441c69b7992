"""A trace with Python's functions in; where the time of the threads that ran Python went, by line, out."""

import re
import sys

import numpy as np
import pandas as pd

from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import duration_ns
from labcode.analysis.timeline.links import nearest
from labcode.reports.columns import Bools
from labcode.reports.frames import codes_of
from labcode.reports.kineto.report import KinetoReport

OWN = "its own code"
_FRAME = re.compile(r"(?P<file>[^<>]*?)\((?P<line>\d+)\): (?P<function>.*)")
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\w+).*>")
# packages that programs call; what they call back (``__getitem__`` of a data set) is the program's again
_PACKAGES = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "triton", "numpy", "pandas", "scipy", "PIL", "cv2", "tqdm"),
        *("transformers", "accelerate", "datasets", "deepspeed", "lightning", "pytorch_lightning"),
        *("diffusers", "peft", "timm", "labcode", "typing_extensions"),
    )
)
COLUMNS = {"where": "str", "calls": "str", "self_ns": "int64", "share": "float64"}


def is_program(name: str) -> bool:
    """Whether a function of Python, as traces name it, is the program's own: not a library's or built in."""
    found = _FRAME.fullmatch(name)
    if found is None or "site-packages/" in name or "dist-packages/" in name:
        return False
    first = found["file"].lstrip("/").partition("/")[0].removesuffix(".py")
    inside = found["file"].lstrip("/").startswith("usr/lib/python")
    return first not in _PACKAGES and first not in sys.stdlib_module_names and not inside


def host_lines(report: KinetoReport) -> pd.DataFrame:
    """Where the time of the threads that ran the program's Python went, the most first.

    where (function and place, ``load, train.py:4``), calls (what the line of the program calls: an operator,
    a function of a library, something built in; or `OWN`), self_ns (without what the program's own functions
    inside take), share of `extent_ns`. Empty without functions of Python (``with_stack=True``).
    """
    tree = kineto_tree.build(report)
    events = tree.events
    names, python = events["name"].to_numpy(object), (events["kind"] == "python").to_numpy()
    mine = python & _program(names)
    length = extent_ns(report)
    spent = duration_ns(events)
    inner = np.bincount(tree.parent[tree.parent >= 0], spent[tree.parent >= 0], len(events))
    own = np.maximum(spent - inner.astype(np.int64), 0)
    user = nearest(tree, mine)
    around = np.append(mine, False)[tree.parent]
    called = np.where(mine, -1, nearest(tree, around & ~mine))
    kept = (user >= 0) & (own > 0)
    table = pd.DataFrame(
        {
            "where": np.append(names, "")[user[kept]],
            "calls": np.append(names, OWN)[called[kept]],
            "self_ns": own[kept],
        }
    )
    found = table.groupby(["where", "calls"], sort=False)["self_ns"].sum().reset_index()
    found["share"] = found["self_ns"] / max(length, 1)
    found = found.assign(where=found["where"].map(place), calls=found["calls"].map(callee))
    found = found.groupby(["where", "calls"], sort=False).sum().reset_index()
    return found.sort_values("self_ns", ascending=False, kind="stable", ignore_index=True).astype(COLUMNS)


def extent_ns(report: KinetoReport) -> int:
    """From the first function of the program that was seen to begin to the last one's end."""
    functions = report.python_functions()
    mine = functions[_program(functions["name"].to_numpy(object))]
    return int(mine["end_ns"].max() - mine["start_ns"].min()) if len(mine) else 0


def place(name: str) -> str:
    """``train.py(4): load`` as ``load, train.py:4``; other names as they are."""
    found = _FRAME.fullmatch(name)
    return f"{found['function']}, {found['file']}:{found['line']}" if found else name


def callee(name: str) -> str:
    """What is called, in short: ``sleep`` for ``<built-in function sleep>``, a library's function by its name
    and file."""
    built_in = _BUILT_IN.fullmatch(name)
    if built_in:
        return built_in[1]
    return place(name).removeprefix("nn.Module: ")


def _program(names: "np.ndarray[tuple[int], np.dtype[np.object_]]") -> Bools:
    codes, distinct = codes_of(names)
    hits = np.array([is_program(str(name)) for name in distinct], np.bool_)
    return np.append(hits, False)[codes]
