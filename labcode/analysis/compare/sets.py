"""Two capture sets in; their machines, experiments, claims and programs' results side by side out.

Results are those of the runs without a profiler where there are such, for these are the numbers that the book
quotes as speed. A ratio is the second set's value by the first's. Records and claims are all that is read, so
a thin set will do.

What moved is measured in what two equal runs differ by. A record says it where it has quartiles or every
repetition; but two runs differ by more than the repetitions in one do, so at least `EQUAL_RUNS` is taken. Of
2941 times and rates of experiments that were captured twice on H200s, nineteen of twenty moved by less than
8.1 %, half of them by less than 0.3 %; of 66 that depend on the host's CPU and disk three of four moved by
less than 52 %, and of 23 shares of the time there nine of ten by less than 14 points. Shares that do not
depend on the host have too few repetitions to count; three points are what the house takes for them.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, NamedTuple, TextIO

import pandas as pd

from labcode import store
from labcode.analysis.stats.writer import write
from labcode.errors import InputError, LabError
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.show import Paper, check_format, one_line, write_csv, write_json
from labcode.store import CLAIMS_FILE, CaptureSet, Claim, read_claims

COLUMNS = ("kind", "change", "where", "name", "first", "second", "ratio", "moved", "note")
EQUAL_RUNS = {"value": 0.1, "share": 0.03, "value by the host": 0.5, "share by the host": 0.15}
_TITLES = {
    ("claim", "turns over"): "Claims that turn over",
    ("claim", "moved"): "Claims that moved by more than two equal runs differ",
    ("claim", "same"): "Claims that stay",
    ("claim", "only one"): "Claims of one set alone",
    ("result", "moved"): "Results of the programs that moved by more than two equal runs differ",
    ("result", "same"): "Results of the programs that stay",
    ("result", "only one"): "Results of one set alone",
}
_LONGEST = 90
_FARTHEST = 100  # results that a table lists of those that moved


class _Number(NamedTuple):
    """A number of a record, how far apart its middle repetitions lie by its value, and what it is."""

    value: float
    spread: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class SetComparison:
    """Two sets side by side.

    ``rows`` has the columns `COLUMNS`: kind ('claim' or 'result'); change ('turns over' for a claim that
    holds in one set only, 'moved', 'same', 'only one'); where (``page#key`` of a claim, experiment/run);
    name; both values (nan where one has none); ratio (nan where there is none); moved (how far, by what two
    equal runs differ); note. What changes comes first. ``remarks`` are lines on what keeps the two apart:
    experiments and runs of one set alone, other parameters, failed checks.
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
    remarks = [*_lacks(*sets), *_lacks(*sets[::-1])]
    rows: list[tuple[object, ...]] = []
    for experiment in sets[0].experiments:
        if experiment not in sets[1].experiments:
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
    table = table.astype(dict.fromkeys(("first", "second", "ratio", "moved"), "float64"))
    order = [list(_TITLES).index(group) for group in zip(table["kind"], table["change"], strict=True)]
    far = table["moved"].where(table["change"].isin(["moved"]), 0.0)
    table = table.assign(order=order, far=-far).sort_values(["order", "far"], kind="stable")
    table = table[list(COLUMNS)].reset_index(drop=True)
    machines = _machines(sets[0]), _machines(sets[1])
    return SetComparison((first, second), machines, tuple(remarks), table)


def run(first: str, second: str, *, fmt: str, output: TextIO) -> None:
    """Write the comparison of two sets as 'table' or 'md', what changed, or as 'csv' or 'json', all of it."""
    check_format(fmt)
    found = compare_sets(first, second)
    if fmt == "csv":
        write_csv(found.rows, output, digits=6)
    elif fmt == "json":
        document = {
            "schema": DOCUMENT_SCHEMA,
            "sets": found.names,
            "machines": found.machines,
            "remarks": found.remarks,
            "rows": json.loads(found.rows.to_json(orient="records", double_precision=6)),
        }
        write_json(document, output)
    else:
        _write_text(found, fmt, output)


def _lacks(whole: CaptureSet, other: CaptureSet) -> Iterator[str]:
    """One line for all experiments that only one set has: a set may lack half of them."""
    names = [name for name in whole.experiments if name not in other.experiments]
    where, into = f"only in {whole.name}", f"--set {other.name}"
    if len(names) == 1:
        yield f"experiment {names[0]}: {where} (`labcode capture {names[0]} {into}` adds it)"
    elif names:
        command = f"`labcode capture --only-missing {into}` adds what can run there"
        yield f"{len(names)} experiments: {where} ({command}): {', '.join(names)}"


def _results(
    sets: tuple[CaptureSet, CaptureSet], experiment: str, run: str, remarks: list[str]
) -> Iterator[tuple[object, ...]]:
    """A row for each number that a program printed about its own run."""
    both_clean = all(f"{run}.clean.json" in _names(captures, experiment, run) for captures in sets)
    records = [_record(captures, experiment, run, both_clean) for captures in sets]
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
    values = [_with_quartiles(dict(_numbers(record.get("results", {})))) for record in records]
    for name in dict.fromkeys((*values[0], *values[1])):
        one, other = (side.get(name, _Number(math.nan)) for side in values)
        moved = _distance(one.value, other.value) / max(EQUAL_RUNS["value"], one.spread, other.spread)
        change = "only one" if math.isnan(moved) else "moved" if moved > 1 else "same"
        pair = one.value, other.value
        yield "result", change, where, name, *pair, _ratio(*pair), moved, one.note or other.note


def _names(captures: CaptureSet, experiment: str, run: str) -> set[str]:
    return {file.name for file in captures.run(experiment, run).files}


def _record(captures: CaptureSet, experiment: str, run: str, clean: bool) -> dict[str, Any]:
    """The record of the run without a profiler (``clean``), or the other one; empty where there is none."""
    name = f"{run}.clean.json" if clean else f"{run}.json"
    if name not in _names(captures, experiment, run):
        return {}
    record = captures.record(experiment, run, clean=clean)
    objects = [record.get("parameters", {}), checks := record.get("checks", {})]
    if not all(isinstance(one, dict) for one in (*objects, *getattr(checks, "values", tuple)())):
        raise InputError(f"{captures.path / experiment / name}: not a run's record; capture it again")
    return record


def _numbers(results: object, name: str = "") -> Iterator[tuple[str, _Number]]:
    """Every number with its name: of a list of numbers the median, of what is inside the names joined."""
    if isinstance(results, Mapping):
        for key, value in results.items():
            yield from _numbers(value, f"{name}.{key}" if name else str(key))
    elif _is_number(results):
        yield name, _Number(float(results))  # type: ignore[arg-type]
    elif isinstance(results, list) and results and all(map(_is_number, results)):
        middle, apart = float(median(results)), 0.0
        if len(results) > 1 and middle:
            low, _, high = quantiles(map(float, results), n=4, method="inclusive")
            apart = abs((high - low) / middle)
        yield name, _Number(middle, apart, f"median of {len(results)}")
    elif isinstance(results, list) and results and all(isinstance(row, Mapping) for row in results):
        labels = [", ".join(text for text in row.values() if isinstance(text, str)) for row in results]
        often = Counter(labels)
        for number, (label, row) in enumerate(zip(labels, results, strict=True)):
            yield from _numbers(row, f"{name}[{label if label and often[label] == 1 else number}]")


def _with_quartiles(numbers: dict[str, _Number]) -> dict[str, _Number]:
    """Numbers with what lies between their quartiles, as ``time_q1_us`` and ``time_q3_us`` of ``time_us``."""
    found = dict(numbers)
    for name, number in numbers.items():
        stem, _, unit = name.rpartition("_")
        ends = f"{stem}_q1_{unit}", f"{stem}_q3_{unit}"
        if number.value and all(end in numbers for end in ends):
            low, high = (found.pop(end).value for end in ends)
            found[name] = number._replace(spread=abs((high - low) / number.value))
    return found


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
        first, second = (
            math.nan if claim is None or claim.value is None else claim.value for claim in (one, other)
        )
        text, moved = (one or other).text, math.nan  # type: ignore[union-attr]
        change = "only one"
        if one and other:
            moved = _claim_moved(one, first, second)
            change = "turns over" if one.holds != other.holds else "moved" if moved > 1 else "same"
        yield (
            "claim",
            change,
            key,
            text,
            first,
            second,
            _ratio(first, second),
            moved,
            _holds(one, other, sets),
        )


def _claim_moved(claim: Claim, first: float, second: float) -> float:
    """How far a claim's value moved, by what two equal runs differ: in points where it is a share."""
    if math.isnan(first) or math.isnan(second):
        return 0.0 if math.isnan(first) and math.isnan(second) else math.inf
    shown = re.match(r"[\u2212+-]?(\d+(?:\.\d+)?)%$", claim.shown)
    by = " by the host" if claim.host else ""
    if shown is None:
        return _distance(first, second) / EQUAL_RUNS["value" + by]
    one = 1.0 if abs(abs(first) * 100 - float(shown[1])) < abs(abs(first) - float(shown[1])) else 100.0
    return abs(second - first) / (EQUAL_RUNS["share" + by] * one)


def _distance(first: float, second: float) -> float:
    """The relative distance of two numbers, by the smaller; without bound where one is 0 or of other sign."""
    if first == second:
        return 0.0
    low, high = sorted((abs(first), abs(second)))
    return abs(second - first) / low if first * second > 0 or math.isnan(high) else math.inf


def _holds(one: Claim | None, other: Claim | None, sets: tuple[CaptureSet, CaptureSet]) -> str:
    notes = []
    for claim, captures in zip((one, other), sets, strict=True):
        if claim is None:
            notes.append(f"not in {captures.name}")
        elif not claim.holds:
            bound = f" ({claim.bound})" if claim.bound else ""
            notes.append(f"does not hold in {captures.name}{bound}")
    if one and other and one.bound != other.bound:
        notes.append(f"bounds differ: {one.bound or 'true'} and {other.bound or 'true'}")
    return "; ".join(notes)


def _ratio(one: float, other: float) -> float:
    return other / one if one and math.isfinite(one) and math.isfinite(other) else math.nan


def _of(values: Mapping[str, object], key: str) -> object:
    return values.get(key, "none")


def _machines(captures: CaptureSet) -> str:
    found = []
    for machine in captures.machines.values():
        gpus = machine.get("gpus") or [{}]
        facts = [
            f"{word} {machine[word]}" for word in ("driver", "cuda", "torch", "nsys") if machine.get(word)
        ]
        facts += [str(machine["cpu"])] if machine.get("cpu") else []
        versions = ", ".join(facts)
        found.append(f"{machine.get('gpu_count', 0)} × {gpus[0].get('name', 'no GPU')} ({versions})")
    return "; ".join(dict.fromkeys(found))


def _write_text(found: SetComparison, fmt: str, output: TextIO) -> None:
    paper = Paper(fmt, output)
    lines = [f"{name}: {machine}" for name, machine in zip(found.names, found.machines, strict=True)]
    lines += [f"note: {remark}" for remark in found.remarks]
    paper.points(lines)
    for (kind, change), title in _TITLES.items():
        rows = found.rows[(found.rows["kind"] == kind) & (found.rows["change"] == change)]
        if rows.empty:
            continue
        listed = rows if (kind, change) != ("result", "moved") else rows.head(_FARTHEST)
        if change == "same" or (kind, change) == ("result", "only one"):
            listed = rows.head(0)
        some = f", the farthest {_FARTHEST} listed" if len(listed) else ", not listed"
        paper.heading(f"{title} ({len(rows)}{some * (len(listed) < len(rows))})")
        if listed.empty:
            continue
        shown = {
            found.names[0]: listed["first"].map(_text),
            found.names[1]: listed["second"].map(_text),
            "Ratio": listed["ratio"].map(_text),
            "Moved": listed["moved"].map(_text),
            "Where": listed["where"].str.partition("#")[0],
            "What": listed["name"].map(lambda text: one_line(text, _LONGEST)),
            "Note": listed["note"],
        }
        write(pd.DataFrame(shown).astype("str"), fmt, output)
    output.write("\n`--format csv` has every row.\n")


def _text(value: float) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    return f"{value:.6g}" if abs(value) >= 1000 else f"{value:.4g}"
