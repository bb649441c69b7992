"""One launch of an Nsight Compute report: what was read in; records with metrics, sections, rules out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from labcode.errors import InputError, LabError
from labcode.reports.ncu.names import HEADER_EXTRAS, METRICS

Value = int | float | str | None


@dataclass(frozen=True)
class Reading:
    """A metric's value in its unit, with the label that sections give it ('' where none shows it)."""

    value: Value
    unit: str
    label: str


@dataclass(frozen=True)
class Section:
    """A section of a launch: its identifier, its title, its place among the sections, and its metrics.

    ``header`` has (name, label, unit) of each metric in its table, ``body`` the names of the others.
    """

    id: str
    name: str
    order: int
    header: tuple[tuple[str, str, str], ...]
    body: tuple[str, ...]


@dataclass(frozen=True)
class RuleResult:
    """What one of NVIDIA's rules said: its texts, its estimated speedup, and the metrics it points to.

    ``speedup_pct`` is in percent (nan without an estimate); ``speedup_kind`` is 'local' (of the efficiency of
    the hardware that the rule is about), 'global' (of the launch's time) or ''.
    """

    rule: str
    name: str
    section: str
    title: str
    message: str
    kind: str  # 'OK', 'OPT', 'WRN', 'ERR', ''
    speedup_kind: str
    speedup_pct: float
    focus: tuple[tuple[str, float, str], ...]  # metric, value, what to do about it


@dataclass(frozen=True, eq=False)
class Launch:
    """One profiled launch.

    ``readings`` has its metrics by ncu's names. ``instances`` has the keys and values of metrics with several
    values; keys are addresses of instructions, opcodes, or x coordinates of a curve. ``code`` has the columns
    of its instructions, which `labcode.reports.ncu.report.NcuReport.source` makes a table of.
    """

    format: ClassVar[Literal["ncu"]] = "ncu"

    id: int
    function: str
    demangled: str
    mangled: str
    process_id: int
    readings: Mapping[str, Reading]
    instances: Mapping[str, tuple[Sequence[Value], Sequence[Value]]]
    sections: tuple[Section, ...]
    rules: tuple[RuleResult, ...]
    code: Mapping[str, Sequence[Value]]
    path: Path

    def has(self, meaning: str) -> bool:
        """Whether the launch has a metric of this meaning (a key of `labcode.reports.ncu.names.METRICS`)."""
        return self._find(meaning) is not None

    def number(self, meaning: str) -> float:
        """The metric of this meaning; where it is missing, `InputError` names the flag that collects it."""
        found = self._find(meaning)
        if found is None:
            known = METRICS[meaning]
            raise InputError(
                f"{self.path}: launch {self.id} ({self.function}) has no {known.names[0]} ({known.meaning}); "
                f"collect it with `ncu --section {known.section}` (or --set full)"
            )
        return found

    def number_or(self, meaning: str, default: float = float("nan")) -> float:
        """The metric of this meaning, or ``default`` where it is missing."""
        found = self._find(meaning)
        return default if found is None else found

    def metric(self, name: str) -> float:
        """A metric by ncu's own name; `LabError` where the launch has no number of that name."""
        reading = self.readings.get(name)
        if reading is None or not isinstance(reading.value, int | float):
            raise LabError(
                f"{self.path}: launch {self.id} ({self.function}) has no metric {name}; "
                f"collect it with `ncu --metrics {name}`"
            )
        return float(reading.value)

    def device(self) -> dict[str, Value]:
        """The GPU's attributes without ncu's prefix: ``multiprocessor_count``, ``display_name``, …"""
        prefix = "device__attribute_"
        return {k.removeprefix(prefix): r.value for k, r in self.readings.items() if k.startswith(prefix)}

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor; (0, 0) where the report does not say."""
        device = self.device()
        major, minor = (device.get(f"compute_capability_{part}") for part in ("major", "minor"))
        return (int(major), int(minor)) if isinstance(major, int) and isinstance(minor, int) else (0, 0)

    def whole(self, name: str) -> int:
        """A metric by ncu's own name as an ``int``; 0 where the launch has no such number."""
        reading = self.readings.get(name)
        return int(reading.value) if reading and isinstance(reading.value, int | float) else 0

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks of the grid in x, y and z."""
        return tuple(self.whole(f"launch__grid_dim_{axis}") for axis in "xyz")  # type: ignore[return-value]

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads per block in x, y and z."""
        return tuple(self.whole(f"launch__block_dim_{axis}") for axis in "xyz")  # type: ignore[return-value]

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks per cluster in x, y and z; zeros where there is no cluster."""
        return tuple(self.whole(f"launch__cluster_dim_{axis}") for axis in "xyz")  # type: ignore[return-value]

    def _find(self, meaning: str) -> float | None:
        for name in METRICS[meaning].names:
            reading = self.readings.get(name)
            if reading is not None and isinstance(reading.value, int | float):
                return float(reading.value)
        return None


_KINDS = {0: "", 1: "OK", 2: "OPT", 3: "WRN", 4: "ERR"}
_SPEEDUPS = {0: "", 1: "local", 2: "global"}


def launch_of(number: int, raw: Mapping[str, object], pid: int, path: Path) -> Launch:
    """A launch from what `labcode.reports.ncu.extract` read of it; ``pid`` is its process."""
    metrics: Mapping[str, Sequence[object]] = raw["metrics"]  # type: ignore[assignment]
    instances: Mapping[str, Sequence[Sequence[Value]]] = raw["instances"]  # type: ignore[assignment]
    return Launch(
        id=number,
        function=str(raw["function"]),
        demangled=str(raw["demangled"]),
        mangled=str(raw["mangled"]),
        process_id=pid,
        readings={k: Reading(v[0], str(v[1]), str(v[2])) for k, v in metrics.items()},  # type: ignore[arg-type]
        instances={name: (keys, values) for name, (keys, values) in instances.items()},
        sections=tuple(
            sorted((_section(one, metrics) for one in raw["sections"]), key=_place)  # type: ignore[attr-defined]
        ),
        rules=tuple(_rule(one) for one in raw["rules"]),  # type: ignore[attr-defined]
        code=raw["code"],  # type: ignore[arg-type]
        path=path,
    )


def _section(raw: Mapping[str, object], metrics: Mapping[str, Sequence[object]]) -> Section:
    section = str(raw["id"])
    header = {name: (name, label, unit) for name, label, unit in raw["header"]}  # type: ignore[attr-defined]
    places = {name: name for name in header}
    for (where, name), (label, unit, place) in HEADER_EXTRAS.items():
        others = {known[1] for other, known in header.items() if other != name}
        if where == section and name in metrics and label not in others:
            header[name] = (name, label, unit)
            places[name] = place or name
    return Section(
        section,
        str(raw["name"]),
        int(raw["order"]),  # type: ignore[call-overload]
        tuple(header[name] for name in sorted(header, key=places.__getitem__)),
        tuple(raw["body"]),  # type: ignore[arg-type]
    )


def _place(section: Section) -> tuple[int, str]:
    return section.order, section.name


_LINKS = re.compile(r"@(?:section|sass|source):[^@]*?:([^:@]*)@")
_URLS = re.compile(r"@url:([^:@]*):([^@]*)@")


def plain(text: str) -> str:
    """A rule's message without the links of its own syntax, as ``ncu`` prints it."""
    return _LINKS.sub(r"\1", _URLS.sub(r"\1 (\2)", text))


def _rule(raw: Mapping[str, object]) -> RuleResult:
    message: Mapping[str, object] = raw.get("rule_message") or {}  # type: ignore[assignment]
    speedup: Mapping[str, object] = raw.get("speedup_estimation") or {}  # type: ignore[assignment]
    focus: Sequence[Mapping[str, object]] = raw.get("focus_metrics") or ()  # type: ignore[assignment]
    return RuleResult(
        rule=str(raw["rule_identifier"]),
        name=str(raw["name"]),
        section=str(raw["section_identifier"]),
        title=str(message.get("title", "")),
        message=plain(str(message.get("message", ""))),
        kind=_KINDS.get(int(message.get("type", 0)), ""),  # type: ignore[call-overload]
        speedup_kind=_SPEEDUPS.get(int(speedup.get("type", 0)), ""),  # type: ignore[call-overload]
        speedup_pct=float(speedup.get("speedup", float("nan"))),  # type: ignore[arg-type]
        focus=tuple((str(f["name"]), float(f["value"]), str(f["info"])) for f in focus),  # type: ignore[arg-type]
    )
