"""What `labcode diagnose` does with a file, by what its format declares.

What one format alone needs is imported where it is used, for a start takes a tenth of the whole.
"""

from pathlib import Path
from typing import TextIO

from labcode import reports
from labcode.analysis.rules.registry import GROUPS
from labcode.analysis.rules.writing import write_verdicts
from labcode.reports import Kind
from labcode.verbs.diagnose.verdicts import (
    Asked,
    applying,
    judge,
    judge_all,
    ranked,
    rules_of,
    run,
    select,
    tables_of,
    together,
)


def run_on_launches(file: Path, kind: Kind, asked: Asked, output: TextIO, notes: TextIO | None) -> None:
    """The verdicts on the launches of a report."""
    from labcode.analysis.rules.writing_launches import write_launches

    rules, _ = asked.rules(kind)
    with reports.open_launches(file) as report:
        chosen = report.select(asked.kernel, asked.launch)
        judged = [(one, judge(one, rules)) for one in chosen.list]
        write_launches(chosen, judged, asked.fmt, output, nvidia=not asked.only)


def run_on_log(file: Path, kind: Kind, asked: Asked, output: TextIO, notes: TextIO | None) -> None:
    """The verdicts on a power log."""
    from labcode.reports.power.log import open_log

    rules, broken = asked.rules(kind)
    log = open_log(file)
    if notes is not None:
        notes.writelines(f"note: {line}\n" for line in log.warnings)
    write_verdicts(log, judge(log, rules, broken), asked.fmt, output, short=asked.short)


def run_on_timeline(file: Path, kind: Kind, asked: Asked, output: TextIO, notes: TextIO | None) -> None:
    """The verdicts on a capture or a trace; of a folder of few traces those on all of them, too."""
    of_all = together() if file.is_dir() else []
    rules, broken = asked.rules(kind, of_all)
    with reports.open_timeline(file, "diagnose") as report:
        tables = tables_of(report, asked.window)
        rules = rules if asked.only else applying(rules, tables)
        late = [one for one in rules if one in of_all]  # which judge them by all reports
        own = [one for one in rules if one.id not in {other.id for other in late}]
        verdicts = judge(tables, own, broken) if asked.only else judge_all(tables, own, broken)
        if late:
            from labcode.analysis.ranks.run import open_run

            verdicts = ranked([*verdicts, *judge(open_run(file), late)])
        if notes is not None:
            notes.writelines(f"note: {line}\n" for line in (*tables.remarks(), *tables.judged.notes))
        write_verdicts(report, verdicts, asked.fmt, output, tables, short=asked.short)


def run_on_ranks(folder: Path, kind: Kind, asked: Asked, output: TextIO, notes: TextIO | None) -> None:
    """The verdicts on a folder with a report for each rank."""
    from labcode.analysis.ranks.run import open_run

    with open_run(folder, scheduler=asked.scheduler) as ranks:
        if first := ranks.without_gpu:
            if notes is not None:
                notes.write(f"note: {ranks.notes[0]}; judged is {first.name}\n")
            run(
                first,
                fmt=asked.fmt,
                only=asked.only,
                everything=asked.everything,
                output=output,
                notes=notes,
            )
            return
        known = rules_of(ranks)
        verdicts = judge(ranks, select(asked.only, known, GROUPS[kind].of) if asked.only else known)
        if notes is not None:
            notes.writelines(f"note: {line}\n" for line in ranks.notes)
        write_verdicts(ranks, verdicts, asked.fmt, output, short=asked.short)
