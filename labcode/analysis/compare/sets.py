"""Two capture sets in; their machines, experiments, programs' results and claims side by side out.

Results are those of the runs without a profiler where there are such, for these are the numbers that the book
quotes as speed. A ratio is the second set's value by the first's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, TextIO

import pandas as pd

from labcode import store
from labcode.analysis.stats.writer import check_format, write
from labcode.errors import InputError, LabError
from labcode.store import CLAIMS_FILE, CaptureSet, Claim, read_claims

COLUMNS = ("kind", "where", "name", "first", "second", "ratio", "note")
_LONGEST = 90


@dataclass(frozen=True)
class SetComparison:
    """Two sets side by side.

    ``rows`` has the columns `COLUMNS`: kind ('result' or 'claim'); where (experiment/run, or the page); name;
    both values (nan where one has none); ratio (nan where there is none); note. ``remarks`` are lines on what
    keeps the two apart: experiments and runs of one set alone, other parameters, failed checks.
    """

    names: tuple[str, str]
    machines: tuple[str, str]
    remarks: tuple[str, ...]
    rows: pd.DataFrame


def compare_sets(first: str, second: str) -> SetComparison:
    """Compare two sets by name; `InputError` for a set that is missing or damaged."""
    if first == second:
        raise LabError(f"captures compare: {first} twice; name two sets (`labcode captures list` has them)")
    sets = store.load_set(first), store.load_set(second)
    remarks: list[str] = []
    rows: list[tuple[object, ...]] = []
    for experiment in dict.fromkeys((*sets[0].experiments, *sets[1].experiments)):
        if not _in_both(f"experiment {experiment}", experiment, sets, remarks):
            continue
        runs = [captures.experiments[experiment].runs for captures in sets]
        for run in dict.fromkeys((*runs[0], *runs[1])):
            if run in runs[0] and run in runs[1]:
                rows += _results(sets, experiment, run, remarks)
            else:
                here = sets[0 if run in runs[0] else 1].name
                remarks.append(f"run {experiment}/{run}: only in {here}")
    rows += _claims(sets, remarks)
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table.astype({"first": "float64", "second": "float64", "ratio": "float64"})
    machines = _machines(sets[0]), _machines(sets[1])
    return SetComparison((first, second), machines, tuple(remarks), table)


def run(first: str, second: str, *, fmt: str, output: TextIO) -> None:
    """Write the comparison of two sets as 'table', 'csv', 'json' or 'md'."""
    check_format(fmt)
    found = compare_sets(first, second)
    if fmt == "csv":
        found.rows.to_csv(output, index=False, float_format="%.6g", lineterminator="\n")
    elif fmt == "json":
        document = {
            "sets": found.names,
            "machines": found.machines,
            "remarks": found.remarks,
            "rows": json.loads(found.rows.to_json(orient="records", double_precision=6)),
        }
        json.dump(document, output, indent=2, ensure_ascii=False)
        output.write("\n")
    else:
        _write_text(found, fmt, output)


def _in_both(what: str, experiment: str, sets: tuple[CaptureSet, CaptureSet], remarks: list[str]) -> bool:
    there = [experiment in captures.experiments for captures in sets]
    if all(there):
        return True
    here, lacking = sets[0 if there[0] else 1].name, sets[1 if there[0] else 0].name
    remarks.append(f"{what}: only in {here} (`labcode capture {experiment} --set {lacking}` adds it)")
    return False


def _results(
    sets: tuple[CaptureSet, CaptureSet], experiment: str, run: str, remarks: list[str]
) -> Iterator[tuple[object, ...]]:
    """A row for each number that a program printed about its own run."""
    records = [_record(captures, experiment, run) for captures in sets]
    if not all(records):
        return
    where = f"{experiment}/{run}"
    for captures, record in zip(sets, records, strict=True):
        for name, check in record.get("checks", {}).items():
            if not check.get("passed", True):
                remarks.append(f"{where}: its check {name} failed in {captures.name}")
    parameters = [record.get("parameters", {}) for record in records]
    differ = [
        key
        for key in {**parameters[0], **parameters[1]}
        if _of(parameters[0], key) != _of(parameters[1], key)
    ]
    if differ:
        texts = ", ".join(f"{key} {_of(parameters[0], key)} and {_of(parameters[1], key)}" for key in differ)
        remarks.append(f"{where}: run with other parameters ({texts}), so its results say little")
    values = [dict(_numbers(record.get("results", {}))) for record in records]
    for name in dict.fromkeys((*values[0], *values[1])):
        one, other = (side.get(name, (math.nan, "")) for side in values)
        note = one[1] or other[1]
        yield "result", where, name, one[0], other[0], _ratio(one[0], other[0]), note


def _record(captures: CaptureSet, experiment: str, run: str) -> dict[str, Any]:
    """The record of the run without a profiler, or the only one there is."""
    names = {file.name for file in captures.run(experiment, run).files}
    for clean, name in ((True, f"{run}.clean.json"), (False, f"{run}.json")):
        if name in names:
            record = captures.record(experiment, run, clean=clean)
            objects = [record.get("parameters", {}), checks := record.get("checks", {})]
            if not all(isinstance(one, dict) for one in (*objects, *getattr(checks, "values", tuple)())):
                raise InputError(f"{captures.path / experiment / name}: not a run's record; capture it again")
            return record
    return {}


def _numbers(results: object, name: str = "") -> Iterator[tuple[str, tuple[float, str]]]:
    """Every number with its name: of a list of numbers the median, of what is inside the names joined."""
    if isinstance(results, Mapping):
        for key, value in results.items():
            yield from _numbers(value, f"{name}.{key}" if name else str(key))
    elif _is_number(results):
        yield name, (float(results), "")  # type: ignore[arg-type]
    elif isinstance(results, list) and results and all(map(_is_number, results)):
        yield name, (float(median(results)), f"median of {len(results)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _claims(sets: tuple[CaptureSet, CaptureSet], remarks: list[str]) -> Iterator[tuple[object, ...]]:
    """A row for each claim of the book that either set has a value of."""
    both = [read_claims(captures.path / CLAIMS_FILE) for captures in sets]
    for captures, claims in zip(sets, both, strict=True):
        if not claims:
            remarks.append(
                f"claims: none recorded in {captures.name}; `labcode book --captures {captures.name} "
                "--update-claims` records them"
            )
    if not all(both):
        return
    for key in sorted({*both[0], *both[1]}):
        one, other = both[0].get(key), both[1].get(key)
        page, _, _ = key.partition("#")
        text = (one or other).text  # type: ignore[union-attr]
        values = [math.nan if claim is None or claim.value is None else claim.value for claim in (one, other)]
        yield "claim", page, text, *values, _ratio(*values), _holds(one, other, sets)


def _holds(one: Claim | None, other: Claim | None, sets: tuple[CaptureSet, CaptureSet]) -> str:
    notes = []
    for claim, captures in zip((one, other), sets, strict=True):
        if claim is None:
            notes.append(f"not in {captures.name}")
        elif not claim.holds:
            bound = f" ({claim.bound})" if claim.bound else ""
            notes.append(f"does not hold in {captures.name}{bound}")
    return "; ".join(notes)


def _ratio(one: float, other: float) -> float:
    return other / one if one and math.isfinite(one) and math.isfinite(other) else math.nan


def _of(values: Mapping[str, object], key: str) -> object:
    return values.get(key, "none")


def _machines(captures: CaptureSet) -> str:
    found = []
    for machine in captures.machines.values():
        gpus = machine.get("gpus") or [{}]
        versions = ", ".join(
            f"{word} {machine[word]}" for word in ("driver", "cuda", "torch", "nsys") if machine.get(word)
        )
        found.append(f"{machine.get('gpu_count', 0)} × {gpus[0].get('name', 'no GPU')} ({versions})")
    return "; ".join(dict.fromkeys(found))


def _write_text(found: SetComparison, fmt: str, output: TextIO) -> None:
    bullet, heading = ("- ", "## ") if fmt == "md" else ("", "")
    lines = [f"{name}: {machine}" for name, machine in zip(found.names, found.machines, strict=True)]
    lines += [f"note: {remark}" for remark in found.remarks]
    output.write("".join(f"{bullet}{line}\n" for line in lines))
    for kind, title in (("result", "Results of the programs"), ("claim", "Claims of the book")):
        rows = found.rows[found.rows["kind"] == kind]
        if rows.empty:
            continue
        output.write(f"\n{heading}{title}\n" + "\n" * (fmt == "md"))
        shown = {
            found.names[0]: rows["first"].map(_text),
            found.names[1]: rows["second"].map(_text),
            "Ratio": rows["ratio"].map(_text),
            "Where": rows["where"],
            "What": rows["name"].map(_short),
            "Note": rows["note"],
        }
        write(pd.DataFrame(shown).astype("str"), fmt, output)


def _text(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.6g}" if abs(value) >= 1000 else f"{value:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
