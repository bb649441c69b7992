"""A course around the book: a name and a plan in; syllabus, hand-out, grading, a page of results out.

.. code-block:: text

    NAME/syllabus.md     the sessions, with the time that reading and solving take
    NAME/hand-out.tar    the lab without readable solutions, for learners
    NAME/grade.sh        grades what is in handed-in/, one folder per learner, and writes results.html
    NAME/README.md       what to do with these, in order

The plans are the syllabi of the guide to teaching, read off its source, so that there is one of each.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labcode import store
from labcode.book import reading
from labcode.errors import LabError, nearest
from labcode.grading import catalogue, grades
from labcode.kit import hand_out
from labcode.outputs import base_names, staged, whole
from labcode.show import html, html_table, markdown

PLANS = {"hours": "Two hours", "day": "One day", "week": "One week", "term": "One term"}
RESULTS = "results.html"
_GUIDE = "book/guides/teaching.md"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BLOCK = r"^### {title}\b[^\n]*\n.*?^```\{{syllabus\}}\n(.*?)^```"
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)

_GRADE = """\
#!/usr/bin/env bash
# Grades each folder of handed-in/ in a jail, signs the grades, and writes results.html.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
export LABCODE_GRADES_KEY="${{LABCODE_GRADES_KEY:-$PWD/grades.key}}"
if [ ! -s "$LABCODE_GRADES_KEY" ]; then
    (umask 077 && openssl rand -hex 32 >"$LABCODE_GRADES_KEY")
fi
mkdir -p grades
for answers in handed-in/*/; do
    [ -d "$answers" ] || {{ echo "handed-in/: no folders here; put one for each learner" >&2; exit 2; }}
    learner=$(basename "$answers")
    echo "$learner"
    labcode exercises {exercises} --answers "$answers" --isolated --grades "grades/$learner.json" ||
        [ $? -eq 1 ] # some part did not pass
done
labcode course results grades -o results.html
"""

_README = """\
# {name}

1. Read `syllabus.md`, and give it to the learners.
2. Give them `hand-out.tar`: the lab, with starters and without readable solutions.
3. Put what each hands in (the folder `exercises/`, or the whole copy) into `handed-in/NAME/`.
4. Run `bash grade.sh`, with `labcode` installed from your checkout. Answers run in a jail; grades are signed
   with the key in `grades.key`, which is made the first time and which nobody else should see.
   `results.html` shows the cohort.

Grades whose signature is not that of your key are refused, so a file that somebody changed is named.
"""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 70rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: 600; }}
th, td {{ border-bottom: 1px solid #8886; padding: .2rem .7rem; }}
div {{ overflow-x: auto; }}
</style>
<h1>{title}</h1>
<p>{summary}</p>
<div tabindex="0">{learners}</div>
<div tabindex="0">{parts}</div>
</html>
"""


@dataclass(frozen=True)
class Session:
    """A line of a plan: what it is called, its pages, its exercises or parts of such."""

    title: str
    pages: tuple[str, ...]
    exercises: tuple[str, ...]


def new(name: str, parent: Path, plan: str) -> list[str]:
    """Write the folder of a course, whole or not at all; returns a line for each file."""
    if not _NAME.fullmatch(name):
        raise LabError(f"{name!r}: not a name for a course; use letters, digits, - and _")
    if plan not in PLANS:
        raise LabError(f"--plan {plan}: {nearest(plan, PLANS)}")
    target = parent / name
    if target.exists():
        raise LabError(f"{target}: is there already; choose another name")
    if not parent.is_dir():
        raise LabError(f"{parent}: no such folder; make it first")
    sessions = sessions_of(plan)
    names = list(dict.fromkeys(one for session in sessions for one in session.exercises))
    target.mkdir()
    try:
        with staged(target, force=False) as work:
            (work / "syllabus.md").write_text(syllabus(name, sessions), encoding="utf-8")
            script = work / "grade.sh"
            script.write_text(_GRADE.format(exercises=" ".join(names)), encoding="utf-8")
            script.chmod(0o755)
            (work / "README.md").write_text(_README.format(name=name), encoding="utf-8")
            hand_out.write(work / "hand-out.tar")
    except BaseException:
        target.rmdir()
        raise
    return [str(path) for path in sorted(target.iterdir())]


def sessions_of(plan: str) -> list[Session]:
    """The sessions of a plan, as the guide to teaching has them; `LabError` where the guide lacks it."""
    guide = store.repository_root() / _GUIDE
    if not guide.is_file():
        raise LabError(f"{guide}: no such file; run this in a checkout of the lab, or set LABCODE_HOME")
    pattern = _BLOCK.format(title=re.escape(PLANS[plan]))
    found = re.search(pattern, guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if found is None:
        raise LabError(f"{guide}: has no syllabus under “{PLANS[plan]}”")
    lines = [line for line in found[1].splitlines() if line.strip() and not line.startswith(":")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [Session(title, tuple(pages.split()), tuple(names.split())) for title, pages, names in cells]


def syllabus(name: str, sessions: Sequence[Session]) -> str:
    """The sessions as a table in Markdown; minutes as the book has them."""
    lines = [f"# {name}: syllabus", "", "| Session | Read | Solve | Minutes |", "|---|---|---|---:|"]
    total = 0
    for session in sessions:
        minutes = round(sum(map(_reading, session.pages)) + sum(map(_solving, session.exercises)))
        total += minutes
        read = "; ".join(markdown(_title(page)) for page in session.pages)
        solve = ", ".join(f"`{one}`" for one in session.exercises)
        lines.append(f"| {markdown(session.title)} | {read} | {solve} | {minutes} |")
    return "\n".join([*lines, f"| In all | | | {total} |", ""])


def results(paths: Sequence[Path], output: Path, title: str = "Results") -> str:
    """Write a page of a cohort's results from signed grades; a line on it.

    Every file must bear the signature of the key that ``$LABCODE_GRADES_KEY`` names: `LabError` without a
    key, and for a file that was changed or signed by somebody else.
    """
    if not grades.key():
        raise LabError(f"set {grades.KEY_VARIABLE} to the file of the key that the grades were signed with")
    if output.suffix != ".html":
        raise LabError(f"{output}: the page's name must end in .html")
    files = [file for path in paths for file in grades.files_of(path)]
    cohort = {name: grades.read(file) for file, name in base_names(files).items()}
    versions = {(one.labcode, one.grader) for one in cohort.values()}
    graded = sorted(one.graded[:10] for one in cohort.values())
    summary = f"{len(cohort)} learners, graded {' to '.join(dict.fromkeys((graded[0], graded[-1])))}."
    if len(versions) > 1:
        summary += " They were not all graded by the same version of the lab: grade again before you compare."
    page = _PAGE.format(
        title=html(title), summary=html(summary), learners=_learners(cohort), parts=_parts(cohort)
    )
    with whole(output, reads=files) as made:
        made.write_text(page, encoding="utf-8")
    return f"{output}: {len(cohort)} learners"


def _learners(cohort: dict[str, grades.Grades]) -> str:
    rows = []
    for name, found in cohort.items():
        passed = [one for one in found.parts if one.status == "passed"]
        points = sum(one.worth for one in passed)
        rows.append((name, f"{len(passed)}/{len(found.parts)}", f"{points:.1f}", _of(found.parts, "not run")))
    heads = ("Learner", "Parts passed", "Points", "Not run")
    return html_table(heads, (False, True, True, True), rows, "Each learner")


def _parts(cohort: dict[str, grades.Grades]) -> str:
    """A row for each part, those that the fewest passed first."""
    by_part: dict[str, list[grades.Grade]] = {}
    for found in cohort.values():
        for one in found.parts:
            by_part.setdefault(one.id, []).append(one)
    ordered = sorted(by_part.items(), key=lambda item: sum(one.status == "passed" for one in item[1]))
    states = ("passed", "failed", "to do", "not run")
    rows = [(name, of[0].title, *(_of(of, state) for state in states)) for name, of in ordered]
    heads = ("Part", "Asks for", "Passed", "Failed", "To do", "Not run")
    return html_table(heads, (False, False, True, True, True, True), rows, "Each part, the hardest first")


def _of(parts: Sequence[grades.Grade], status: str) -> str:
    return str(sum(one.status == status for one in parts))


def _page(name: str) -> Path:
    return store.repository_root() / "book" / f"{name}.md"


def _title(name: str) -> str:
    found = _TITLE.search(_page(name).read_text(encoding="utf-8"))
    return found[1] if found else name


def _reading(name: str) -> float:
    return reading.minutes(_page(name))


def _solving(name: str) -> float:
    exercise, part = catalogue.find(name)
    return exercise.minutes / (1 if part is None else len(exercise.parts))
