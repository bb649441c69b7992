"""Units as tables, axes and users write them: a name, label or option in; the unit, or its size, out."""

import re

from labcode.errors import LabError

SUFFIXES = {  # of a column's name
    "_bytes_per_s": "bytes/s",
    "_gb_per_s": "GB/s",
    "_gib": "GiB",
    "_mib": "MiB",
    "_mb": "MB",
    "_gb": "GB",
    "_ns": "ns",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_bytes": "bytes",
    "_percent": "%",
    "_pct": "%",
    "_mhz": "MHz",
    "_w": "W",
    "_j": "J",
}
_ALSO = {  # what tables leave to their labels
    "_per_s": "",
    "_flops_per_s": "FLOP/s",
    "_hz": "Hz",
    "_mj": "mJ",
    "_kib": "KiB",
    "_tb_per_s": "TB/s",
    "_tflops": "TFLOP/s",
    "_share": "1",
}
_SIZES = {
    "time": {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    "size": {"bytes": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "bandwidth": {"bytes/s": 1.0, "GB/s": 1e9, "bytes/ns": 1e9, "TB/s": 1e12},
    "rate": {"FLOP/s": 1.0, "GFLOP/s": 1e9, "TFLOP/s": 1e12},
    "energy": {"µJ": 1e-6, "mJ": 1e-3, "J": 1.0},
    "power": {"W": 1.0},
    "frequency": {"Hz": 1.0, "MHz": 1e6, "GHz": 1e9},
    "share": {"%": 0.01, "1": 1.0},
}
_OF = {unit: (kind, size) for kind, units in _SIZES.items() for unit, size in units.items()}
_UNITS_S = (3600.0, 60.0, 1.0, 1e-3)
_NUMBER = r"(?:(\d+(?:\.\d+)?|\.\d+)%s)?"
_TIME = re.compile("".join(_NUMBER % unit for unit in ("h", r"m(?:in)?(?!s)", "s", "ms")))
_PARENTHESES = re.compile(r"\(([^()]*)\)\s*$")


def of_column(name: str) -> str:
    """The unit that a column's name ends in (``busy_ns``: ns); "" if in none."""
    suffixes = sorted({**SUFFIXES, **_ALSO}.items(), key=lambda one: -len(one[0]))
    return next((unit for suffix, unit in suffixes if name.endswith(suffix) and len(name) > len(suffix)), "")


def of_label(label: str) -> str:
    """The unit that an axis' label names: in parentheses at its end, or as its first word; "" if none."""
    found = _PARENTHESES.search(label)
    words = [found[1], *found[1].split()[:1]] if found else label.split()[:1]
    return next((word for word in words if word in _OF and word != "1"), "")


def factor(unit: str, other: str) -> float | None:
    """What a number in a unit is multiplied by to be one in another; None where they measure something else.

    A unit that is not known here is one of itself alone.
    """
    if unit == other:
        return 1.0
    if unit not in _OF or other not in _OF or _OF[unit][0] != _OF[other][0]:
        return None
    return _OF[unit][1] / _OF[other][1]


def parse_time(text: str, option: str, least_s: float = 0.0) -> float:
    """Seconds in ``30m``, ``90s``, ``1h30m``, ``0.5s`` or ``100ms``; `LabError` for anything else."""
    found = _TIME.fullmatch(text.replace(" ", ""))
    parts = [(float(n), unit) for n, unit in zip(found.groups(), _UNITS_S, strict=True) if n] if found else []
    seconds = sum(number * unit for number, unit in parts)
    if not parts or seconds < least_s:
        raise LabError(f"{option} {text}: give a time with its unit, such as 100ms, 90s or 1h30m")
    return seconds


def parse_size(text: str, option: str) -> int:
    """Bytes in ``15MiB`` or ``20 MB``; `LabError` for another text, and for less than a MB."""
    found = re.fullmatch(r"(\d{1,6}) ?(GB|GiB|MB|MiB)", text)
    if not found or not int(found[1]):
        raise LabError(f"{option} {text}: not a size; say for instance 15MiB or 20MB")
    return int(int(found[1]) * _SIZES["size"][found[2]])
