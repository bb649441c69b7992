"""`labcode compare A B C …`: files and how they belong together in; what groups of them show out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TextIO

import pandas as pd

from labcode.analysis.compare.ensemble import Ensemble, ensemble, read
from labcode.analysis.compare.interval import UNDECIDED, Limits, exit_code, limits_of, undecided
from labcode.analysis.stats.writer import records, write
from labcode.errors import LabError
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.show import Paper, check_format, one_line, time_text, write_csv, write_json
from labcode.verbs.compare import baselines
from labcode.verbs.compare.pairs import TITLES, chosen, parse

_MOST = 20  # rows of a kind that people are shown
_LONGEST = 60
_LARGEST = 1e100  # value of a parameter


@dataclass(frozen=True)
class Asked:
    """What is compared: files that stand alone, groups (NAME=FILE,FILE), the baseline's name, a parameter
    (KEY=VALUE,VALUE), a name to keep the runs under, and the file of baselines."""

    files: Sequence[Path] = ()
    groups: Sequence[str] = ()
    baseline: str | None = None
    column: str | None = None
    keep: str | None = None
    kept_in: Path = field(default_factory=lambda: Path(baselines.FILE))

    @property
    def many(self) -> bool:
        """Whether this is more than one file against another."""
        return len(self.files) != 2 or any((self.groups, self.baseline, self.column, self.keep))


def compare(asked: Asked, *, scheduler: str | None = None, limits: Limits | None = None) -> Ensemble:
    """What the groups show; `LabError` for names, numbers and files that do not fit together."""
    groups = _groups(asked)
    paths = [path for files in groups.values() for path in files]
    if not paths:
        raise LabError("compare: name the runs to compare: two files, or several, or --group NAME=FILE,FILE")
    if asked.keep is not None and (asked.groups or asked.baseline or asked.column):
        raise LabError("--keep takes the runs of one baseline: name its files, and nothing else")
    if len(paths) == 1 and asked.keep is None and asked.baseline is None:
        raise LabError(f"{paths[0]}: one run to compare with nothing; name others, or --baseline NAME")
    values = _values(asked.column, groups)
    runs = read(paths, scheduler=scheduler)
    if asked.keep is not None:
        baselines.keep(asked.kept_in, asked.keep, runs, paths)
        return ensemble({asked.keep: runs}, asked.keep)
    measured = dict(zip(paths, runs, strict=True))
    found = {name: [measured[path] for path in files] for name, files in groups.items()}
    first = next(iter(groups)) if asked.baseline is None else asked.baseline
    baseline = next((name for name, files in groups.items() if files == [Path(first)]), first)
    if baseline not in found:
        if not asked.kept_in.exists():
            raise LabError(
                f"--baseline {baseline}: none of {', '.join(found)}, and there is no {asked.kept_in}; "
                "keep one with `labcode compare FILES --keep NAME`"
            )
        found = {baseline: baselines.kept(asked.kept_in, baseline), **found}
        values = values and [math.nan, *values]
    whole = ensemble(found, baseline, limits=limits)
    return whole.over(_key(asked.column or ""), values) if values else whole


def _groups(asked: Asked) -> dict[str, list[Path]]:
    names = [path.name for path in asked.files]
    if len(set(names)) < len(names):  # files of several folders
        names = [str(path) for path in asked.files]
    found = [(name, [path]) for name, path in zip(names, asked.files, strict=True)]
    for text in asked.groups:
        name, equals, files = text.partition("=")
        if not (name and equals and files) or name in dict(found):
            raise LabError(f"--group {text}: write NAME=FILE,FILE, each name once")
        found.append((name, [Path(file) for file in files.split(",")]))
    paths = [path for _, files in found for path in files]
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise LabError(f"{twice}: named twice; name each run once")
    return dict(found)


def _key(column: str) -> str:
    return column.partition("=")[0]


def _values(column: str | None, groups: Sequence[str] | dict[str, list[Path]]) -> list[float]:
    if column is None:
        return []
    key, _, texts = column.partition("=")
    try:
        values = [float(text) for text in texts.split(",")]
    except ValueError:
        values = []
    if not key or not values or not all(abs(value) < _LARGEST for value in values):
        raise LabError(f"--column {column}: write KEY=NUMBER,NUMBER, a number for each file or group")
    if len(set(values)) < len(values):
        raise LabError(
            f"--column {column}: a number stands twice; put runs of the same {key} into one --group "
            "NAME=FILE,FILE"
        )
    if len(values) != len(groups):
        raise LabError(
            f"--column {column}: {len(values)} numbers for {len(groups)} files and groups: "
            f"{', '.join(groups)}"
        )
    return values


# ---- what is said


def show(
    found: Ensemble,
    *,
    fail_above: float | None,
    fmt: str,
    gates: Sequence[str] = (),
    only: Sequence[str] = (),
    undecided_exit: int | None = None,
    output: TextIO,
) -> int:
    """Write what the groups show as 'table', 'csv', 'json' or 'md'; the exit code.

    It is 1 when something became slower by more than ``fail_above`` percent, the whole interval above it; of
    what ``gates`` name, if there are any; ``undecided_exit`` when the interval of something neither shows nor
    excludes that. Raises `LabError` for a gate that matches nothing.
    """
    check_format(fmt)
    if gates and fail_above is None:
        raise LabError(
            "--gate says what --fail-above PCT judges: give the limit, too, such as --fail-above 5"
        )
    shown = found.table
    if only:
        shown = shown[shown["kind"].isin(chosen(only))]
    judged = found.judged[found.judged["kind"].isin(shown["kind"].unique())]
    if gates:
        judged = pd.concat([_named(found.judged, gate) for gate in gates]).drop_duplicates()
    failed = None if fail_above is None else judged[judged["ratio_low"] > 1 + fail_above / 100]
    unsure = undecided(judged, limits_of(fail_above).same)
    if fmt == "csv":
        write_csv(shown, output, digits=6)
    elif fmt == "json":
        document = {
            "schema": DOCUMENT_SCHEMA,
            "baseline": found.baseline,
            "groups": {name: [run.file for run in runs] for name, runs in found.groups.items()},
            "notes": list(found.notes),
            "rows": records(shown),
            "regressions": None if failed is None else records(failed),
            "undecided": records(unsure),
        }
        write_json(document, output)
    else:
        _write_text(found, shown, failed, fail_above, fmt, output)
    return exit_code(0 if failed is None else len(failed), len(unsure), undecided_exit)


def _named(table: pd.DataFrame, gate: str) -> pd.DataFrame:
    ((kind, pattern),) = parse([gate])
    of_kind = table[table["kind"] == kind]
    rows = of_kind[[fnmatchcase(name, pattern) for name in of_kind["name"]]]
    if rows.empty:
        names = ", ".join(one_line(name, _LONGEST) for name in of_kind["name"].unique()[:12]) or "nothing"
        raise LabError(f"--gate {gate} matches nothing; of this kind there are: {names}")
    return rows


def _write_text(
    found: Ensemble,
    shown: pd.DataFrame,
    failed: pd.DataFrame | None,
    limit: float | None,
    fmt: str,
    output: TextIO,
) -> None:
    paper = Paper(fmt, output)
    lines = [
        f"{'baseline' if name == found.baseline else 'group'} {name}: {len(runs)} "
        f"{'run' if len(runs) == 1 else 'runs'}"
        for name, runs in found.groups.items()
    ]
    lines += [f"note: {note}" for note in found.notes]
    for name in found.groups:
        rows = shown[(shown["group"] == name) & shown["ratio_low"].notna()]
        if len(rows):
            counts = rows["verdict"].value_counts()
            lines.append(
                f"{name}: {counts.get('slower', 0)} slower and {counts.get('faster', 0)} faster than the "
                f"spread explains, {counts.get(UNDECIDED, 0)} undecided, of {len(rows)}"
            )
    if failed is not None:
        lines.append(f"{len(failed)} grew by over {limit:g} %, with the whole interval above it")
        lines += [
            f"  {kind} {one_line(name, _LONGEST)} of {group}: {ratio:.3g}"
            for kind, name, group, ratio in failed[["kind", "name", "group", "ratio"]].to_numpy()
        ]
    paper.points(lines)
    for kind in shown["kind"].unique():
        rows = shown[shown["kind"] == kind]
        title = TITLES.get(kind, kind.capitalize())
        paper.heading(title)
        write(_wide(found, rows), fmt, output)


def _wide(found: Ensemble, rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each name, a column for each group: the median, its spread, the ratio to the baseline."""
    names = rows["name"].unique()[:_MOST]
    head = {name: name for name in found.groups}
    if found.column is not None:
        key, values = found.column
        head = {g: f"{key}={v:g}" if v == v else g for g, v in values.items()}
    columns_of = ("name", "group", "median", "unit", "spread", "ratio", "verdict")
    cells = {
        (name, group): _cell(*cell)
        for name, group, *cell in zip(*(rows[column] for column in columns_of), strict=True)
    }
    columns = {
        head[group] + " (baseline)" * (group == found.baseline): [cells[name, group] for name in names]
        for group in found.groups
    }
    table = pd.DataFrame({**columns, "Name": [one_line(str(name), _LONGEST) for name in names]})
    more = rows["name"].nunique() - len(names)
    if more > 0:
        table.loc[len(table)] = [*("…" for _ in columns), f"{more:,} more (--format csv has all)"]
    return table


def _cell(median: float, unit: str, spread: float, ratio: float, verdict: str) -> str:
    """“12.3 µs ±1.2 %, 1.06 slower”."""
    if math.isnan(median):
        return verdict or "–"
    text = time_text(median, 4) if unit == "ns" else f"{median:,.4g} {unit}"
    text += f" ±{50 * spread:.2g} %" if spread == spread else ""
    text += f", {ratio:.3g}" if ratio == ratio else ""
    return f"{text} {verdict}" if verdict in ("slower", "faster", "new", UNDECIDED) else text
