"""`labcode stats`: files of any kind and names of reports in; tables as text, or a file for each, out::

    write_all([Path("a.sqlite"), Path("b.trace.json.gz")], [], "csv", Path("tables"))

Each file is asked what its kind can answer: the tables of reports are `labcode.analysis.stats.nsys.reports`,
`kineto`, `ncu`, `memory` and `power`, and `ranks` for a folder with one for each rank.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from labcode.analysis.stats.shelf import NOTES, LackingError, Shelf, shelf_of
from labcode.analysis.stats.table import length, texts_of
from labcode.analysis.stats.writer import write
from labcode.errors import InputError, LabError, nearest
from labcode.reports import FOLDERS, able, expect, files_of, kind_of, reports_of_ranks, timelines
from labcode.reports import FORMATS as KINDS
from labcode.show import CELLS, check_format, one_line

if TYPE_CHECKING:
    import pandas as pd

    from labcode.analysis.stats.table import Table

NOTHING = "Report was successfully run, but no data was returned."
SUFFIXES = {"csv": ".csv", "json": ".json", "md": ".md", "table": ".txt"}


class Written(NamedTuple):
    """The files that were written, and a line for each report that was not: of which file, and why."""

    files: tuple[Path, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What is wanted of each file: reports (none: the usual ones), or ``every`` one; of which launches;
    ``beside``: the Nsight Systems export of a power log's run, or the trace that one is compared with;
    ``scheduler``: where a folder's reports are read; ``window``: what of a timeline is reported on.
    """

    reports: tuple[str, ...] = ()
    every: bool = False
    kernel: str | None = None
    launch: int | None = None
    beside: Path | None = None
    scheduler: str | None = None
    window: str | None = None

    def names(self, shelf: Shelf[Any]) -> tuple[str, ...]:
        """The reports to ask a file for."""
        return self.reports or (shelf.every or tuple(shelf.reports) if self.every else shelf.default)


def shelf_at(file: Path) -> Shelf[Any]:
    """The reports on a file, or on a folder with a report for each rank."""
    kind = expect(file, "stats")
    if kind not in FOLDERS:
        return shelf_of(kind)
    from labcode.analysis.stats import ranks

    of, _ = reports_of_ranks(file)
    return ranks.shelf(of, shelf_of(of))


def print_all(
    files: Sequence[Path],
    asked: Asked | Sequence[str],
    fmt: str,
    output: TextIO,
    *,
    notes: TextIO | None = None,
) -> None:
    """Write reports of each file to ``output``; names ask for these reports, no name for the usual.

    Of several files each follows its path (in JSON as a member of one object). What is odd about a file goes
    to ``notes``, a line each. Raises `LabError` for bad use, and `InputError` for a file that cannot be read
    or lacks the data of every report.
    """
    asked = _checked(files, asked, fmt)
    several = len(files) > 1
    parts = []
    for place, file in enumerate(files):
        text = io.StringIO() if several else output
        said = _print(file, asked, fmt, text)
        if notes is not None:
            notes.writelines(f"{line}\n" for line in said)
        if isinstance(text, io.StringIO) and several:
            if fmt == "json":
                parts.append((str(file), text.getvalue()))
                continue
            output.write(_heading(str(file), fmt, place, "#") + text.getvalue())
    if parts:
        _write_object(iter(parts), output)


def write_all(
    files: Sequence[Path],
    asked: Asked | Sequence[str],
    fmt: str,
    folder: Path,
    *,
    force: bool = False,
    notes: TextIO | None = None,
) -> Written:
    """Write each report of each file into ``folder``, as ``<file>_<report>.csv``: all of them or none.

    A report that is named, or usual, and for which a file has no data is skipped with a line. Raises
    `LabError` for bad use and a file that exists (without ``force``), `InputError` for a file that cannot be
    read, or when there is nothing to write at all.
    """
    from labcode.outputs import base_names, refuse_existing, staged

    asked = _checked(files, asked, fmt)
    written, skipped, said = [], [], []
    bases = base_names(files)
    if not asked.every:
        planned = [
            f"{base}_{name}{SUFFIXES[fmt]}"
            for file, base in bases.items()
            for name in asked.names(shelf_at(file))
        ]
        refuse_existing(folder, planned, force=force)
    with staged(folder, force=force, reads=[one for file in files for one in files_of(file)]) as work:
        for file, base in bases.items():
            shelf = shelf_at(file)
            with _opened(shelf, file, asked) as source:
                said += _cut(shelf, source, asked)
                for name, found in _answers(shelf, source, asked.names(shelf)):
                    if isinstance(found, LackingError):
                        skipped += [] if asked.every else [str(found)]
                        continue
                    target = f"{base}_{name}{SUFFIXES[fmt]}"
                    with (work / target).open("w", encoding="utf-8", newline="") as stream:
                        _write(found, fmt, stream, shelf)
                    written.append(folder / target)
                    said += _said_of(found)
                said += [f"note: {line}" for line in shelf.notes(source)]
        if not written:
            raise InputError(
                skipped[0] if skipped else f"{files[0]}: no report has data; nothing was written"
            )
    if notes is not None:
        notes.writelines(f"{line}\n" for line in dict.fromkeys(said))
    return Written(tuple(written), tuple(skipped))


def available(file: Path, *, all_kinds: bool = False) -> list[str]:
    """The reports of ``--all``, or ``all_kinds`` of reports, for which a file has data."""
    shelf = shelf_at(file)
    names = tuple(shelf.reports) if all_kinds else shelf.every or tuple(shelf.reports)
    with shelf.open(file) as source:
        if kind_of(file) in FOLDERS:  # what two of them can answer: all would be read for each report
            source = replace(source, files=source.files[:2])
        return [n for n, found in _answers(shelf, source, names) if not isinstance(found, LackingError)]


def list_reports(files: Sequence[Path], fmt: str, output: TextIO) -> None:
    """Write what each kind of file can be asked, or which reports each of ``files`` can answer."""
    check_format(fmt)
    parts = [(str(file), shelf_at(file), available(file, all_kinds=True)) for file in files]
    for kind in () if files else (kind for kind, one in KINDS.items() if one.stats):
        one = KINDS[kind]
        shelf = shelf_of(kind)
        parts.append((f"{one.what} ({', '.join(one.suffixes)})", shelf, list(shelf.reports)))
    rows = []
    for title, shelf, names in parts:
        for name in names:
            rows.append((title, name, _first_sentence(shelf, name)))
    if fmt in ("csv", "json"):
        columns = zip(("of", "report", "tells"), zip(*rows, strict=True), strict=True)
        write({name: texts_of(values) for name, values in columns}, fmt, output)
        return
    for place, (title, _, names) in enumerate(parts):
        output.write(_heading(title, fmt, place))
        told = [tells for of, _, tells in rows if of == title]
        write({"report": texts_of(names), "tells": texts_of(told)}, fmt, output)


def every_name() -> list[str]:
    """The names of all reports on files of any kind."""
    return list(dict.fromkeys(name for kind in able("stats") for name in shelf_of(kind).reports))


def _first_sentence(shelf: Shelf[Any], name: str) -> str:
    about = shelf.about(name) if shelf.about else shelf.reports[name].__doc__ or ""
    plain = " ".join(about.replace("``", "").replace("`", "").split())
    sentence = plain.partition(". ")[0].rstrip(".")
    head = sentence.partition(": ")[0]
    return head if head.count(" ") > 1 else sentence


def check_names(shelf: Shelf[Any], names: Sequence[str]) -> None:
    """`LabError` for a name that is no report of a shelf, with whose it is, or the nearest one that is."""
    for name in names:
        plain = name.split(":")[0]
        if plain not in shelf.reports:
            others = (one for one in map(shelf_of, able("stats")) if plain in one.reports)
            if other := next(others, None):
                found = (
                    f"one{other.of or ' of captures by nsys'}; `labcode stats --list FILE` names a file's own"
                )
                raise LabError(f"{name!r} is not a report{shelf.of or ' of captures by nsys'}, but {found}")
            raise LabError(f"{name!r} is not a report{shelf.of}; {nearest(name, shelf.reports)}")
        shelf.plain(name)


def _checked(files: Sequence[Path], asked: Asked | Sequence[str], fmt: str) -> Asked:
    asked = asked if isinstance(asked, Asked) else Asked(tuple(dict.fromkeys(asked)))
    if not files:
        raise LabError("stats: name at least one capture, or list the reports with --list")
    if asked.every and asked.reports:
        raise LabError("stats: --all takes every report that has data; leave out --report or --all")
    for file in files:
        if asked.kernel is not None or asked.launch is not None:
            expect(file, "stats --kernel" if asked.launch is None else "stats --launch", "ncu")
        if asked.beside is not None:
            expect(file, "stats --with", "power", "kineto")
        if asked.scheduler is not None:
            expect(file, "stats --scheduler", "ranks")
        if asked.window is not None:
            expect(file, "stats --window", *timelines())
        shelf = shelf_at(file)
        check_names(shelf, asked.reports)
        if asked.beside is not None and shelf.beside is not None:
            expect(asked.beside, "stats --with", shelf.beside[0])
        if asked.window is not None and (whole := set(asked.reports) & set(shelf.uncut)):
            raise LabError(f"stats --window: {sorted(whole)[0]} looks at whole files; ask for it without")
    check_format(fmt)
    return asked


@contextmanager
def _opened(shelf: Shelf[Any], file: Path, asked: Asked) -> Iterator[Any]:
    with shelf.open(file) as source:
        if asked.beside is not None and shelf.beside is not None:
            yield shelf.beside[1](source, asked.beside)
        elif asked.scheduler is not None:
            with replace(source, scheduler=asked.scheduler) as ranks:
                yield ranks
        elif asked.kernel is None and asked.launch is None:
            yield source
        else:
            yield source.select(asked.kernel, asked.launch)


def _cut(shelf: Shelf[Any], source: Any, asked: Asked) -> list[str]:
    """Cut an opened file to the window that is asked for; what there is to say of that."""
    if asked.window is None or shelf.only is None:
        return []
    return [f"note: {line}" for line in shelf.only(source, asked.window)]


_Answer = tuple[str, "Table | pd.DataFrame | LackingError"]


def _answers(shelf: Shelf[Any], source: Any, names: Sequence[str]) -> Iterator[_Answer]:
    """Each report's table, made when its turn comes, or what the file lacks for it."""
    shelf.plan(source, names)
    for name in names:
        try:
            yield name, shelf.answer(source, name) if shelf.answer else shelf.reports[name](source)
        except LackingError as lacking:
            yield name, lacking


def _two(answers: Iterator[_Answer]) -> Iterator[_Answer]:
    """Up to the second that has data: the others are made when those before them are written and gone."""
    having = 0
    for one in answers:
        yield one
        having += not isinstance(one[1], LackingError)
        if having > 1:
            return


def _print(file: Path, asked: Asked, fmt: str, output: TextIO) -> list[str]:
    """Write the reports of one file; give back what there is to say about it."""
    shelf = shelf_at(file)
    with _opened(shelf, file, asked) as source:
        said = _cut(shelf, source, asked)
        names = asked.names(shelf)
        answers = _answers(shelf, source, names)
        first: list[_Answer] = []
        if shelf.tells and not asked.every:
            for one in answers:  # up to the first that has data
                first.append(one)
                if not isinstance(one[1], LackingError):
                    break
            several = len(names) > 1
        else:
            first = list(_two(answers) if asked.every and fmt != "json" else answers)
            if not (asked.reports or asked.every) and all(isinstance(one[1], LackingError) for one in first):
                first += _answers(shelf, source, shelf.otherwise)
            lacking = [f"skipped: {found}" for _, found in first if isinstance(found, LackingError)]
            said += [] if asked.every else lacking
            if len(lacking) < len(first):
                first = [one for one in first if not isinstance(one[1], LackingError)]
            several = len(first) > 1
        whys = [found.why for _, found in first if isinstance(found, LackingError)]
        if len(whys) == len(first):
            odd = "".join(f"; {line.removeprefix(f'{file}: ')}" for line in shelf.notes(source))
            if asked.every or not (asked.reports or shelf.tells):
                raise InputError(f"{file}: no report has data{odd}; {shelf.advice}")
            raise InputError(f"{file}: {'; '.join(dict.fromkeys(whys))}")

        def told_of(one: _Answer) -> _Answer:
            said.extend(_said_of(one[1]))
            return one

        parts = map(told_of, itertools.chain(first, answers))  # which holds no table but the one it gives
        if fmt == "json" and several:
            texts = ((name, _text(found, shelf)) for name, found in parts)
            _write_object(texts, output, indented=shelf.exact)
        else:
            place = 0
            for name, found in parts:
                if asked.every and isinstance(found, LackingError):
                    continue
                if several:
                    output.write(_heading(name, fmt, place))
                place += 1
                if isinstance(found, LackingError):
                    told = f"skipped: {found.why}"
                    output.write(f"# {one_line(told)}\n" if fmt == "csv" else f"{CELLS[fmt](told)}\n")
                    continue
                below = ""
                if shelf.brief and not asked.reports and fmt not in ("csv", "json"):
                    found, below = shelf.brief(source, name, found)  # type: ignore[arg-type]
                _write(found, fmt, output, shelf)
                output.write(f"\n{below}\n" if below and fmt == "md" else f"{below}\n" if below else "")
                del found  # before the next is made
        return [*(f"note: {line}" for line in shelf.notes(source)), *dict.fromkeys(said)]


def _heading(text: str, fmt: str, place: int, level: str = "##") -> str:
    """What stands above a table; in CSV a comment."""
    mark, text = ("# ", one_line(text)) if fmt == "csv" else ("", CELLS[fmt](text))
    return "\n" * (place > 0) + (f"{level} {text}\n\n" if fmt == "md" else f"{mark}{text}\n")


def _said_of(found: object) -> list[str]:
    """What is to be said of a table."""
    return [f"note: {line}" for line in getattr(found, "attrs", {}).get(NOTES, ())]


def _text(found: Table | pd.DataFrame | LackingError, shelf: Shelf[Any]) -> str:
    """A table as JSON; without rows where a file lacks it."""
    if isinstance(found, LackingError):
        return "[]\n"
    text = io.StringIO()
    _write(found, "json", text, shelf)
    return text.getvalue()


def _write(found: Table | pd.DataFrame, fmt: str, output: TextIO, shelf: Shelf[Any]) -> None:
    """A table; of a report of nsys without rows for people the sentence that nsys prints."""
    if isinstance(found, dict) and not length(found) and fmt not in ("csv", "json"):
        output.write(f"{NOTHING}\n")
        return
    write(found, fmt, output, exact=shelf.exact)


def _write_object(members: Iterator[tuple[str, str]], output: TextIO, *, indented: bool = False) -> None:
    """Texts in JSON as members of one object."""
    import json

    output.write("{\n")
    for place, (name, text) in enumerate(members):
        if indented:
            inner = text.rstrip().replace("\n", "\n  ")
            output.write(",\n" * (place > 0) + f"  {json.dumps(name)}: {inner}")
        else:
            output.write("," * (place > 0) + f"{json.dumps(name)}: {text}")
    output.write("\n}\n" if indented else "}\n")
