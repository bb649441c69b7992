"""Grades: the verdicts on a learner's answers in, a file of them out; such files of many in, one table out.

A file is JSON of the structure `Grades`, or a JUnit report: a suite per exercise, a case per part, in which
``to do`` and ``not run`` are skipped. A part is worth its exercise's stars, shared equally among the parts.
"""

import datetime
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TextIO
from xml.etree import ElementTree

import msgspec

from labcode import __version__, store
from labcode.errors import InputError, LabError
from labcode.grading import sealed
from labcode.grading.records import Exercise, Part, Verdict
from labcode.inputs import plain_file
from labcode.outputs import base_names, whole
from labcode.reports.documents import decoded

SCHEMA = "labcode.grades"
KEY_VARIABLE = "LABCODE_GRADES_KEY"
VERSION = 1
_HOW = "name files that `labcode exercises --grades FILE.json` wrote"
_MOST_BYTES = 1 << 26
_KEY_BYTES = 16
_NO_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


class Grade(msgspec.Struct, frozen=True):
    """What was said of one part: ``id`` as ``nsys-ex01-timeline-basics:a``, ``worth`` in stars, the verdict's
    lines, and the digest of the file that was graded (empty where there was none).
    """

    id: str
    title: str
    worth: float
    status: Literal["passed", "failed", "not run", "to do"]
    headline: str
    details: list[str]
    sha256: str


class Grades(msgspec.Struct, kw_only=True, frozen=True):
    """The grades of one learner: by which version of the lab, on which capture set, when (UTC).

    ``grader`` is the digest of what graded: the grader and all solutions, cases and mistakes. ``isolated``
    says that answers ran in a jail. ``signature`` is an HMAC-SHA256 of all the rest, with the key in the file
    that ``$LABCODE_GRADES_KEY`` names; empty without a key.
    """

    schema: str = SCHEMA
    version: int = VERSION
    labcode: str
    captures: str
    graded: str
    parts: list[Grade]
    isolated: bool = False
    grader: str = ""
    signature: str = ""


class _Head(msgspec.Struct):
    schema: object = None
    version: object = None


def grade(exercise: Exercise, part: Part, file: Path, verdict: Verdict) -> Grade:
    """The grade of a part for the verdict on a file."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    worth = exercise.stars / len(exercise.parts)
    lines = list(verdict.details)
    name = exercise.part_id(part)
    return Grade(name, part.title, round(worth, 3), verdict.status, verdict.headline, lines, digest)


def check_target(path: Path) -> None:
    """`LabError` for a file that grades cannot be written to; asked before grading, which takes long."""
    if path.suffix not in (".json", ".xml"):
        raise LabError(f"{path}: grades are written to a .json, or as a JUnit report to an .xml")
    if not path.parent.is_dir():
        raise LabError(f"{path}: there is no folder {path.parent}; create it first")


def write(path: Path, parts: Sequence[Grade], reads: Iterable[Path] = (), *, isolated: bool = False) -> None:
    """Write the grades, whole or not at all, signed where there is a key; the form follows the suffix."""
    check_target(path)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    made = Grades(
        labcode=__version__,
        captures=store.current_set(),
        graded=now,
        parts=list(parts),
        isolated=isolated,
        grader=_digest_of_grader(),
    )
    made = msgspec.structs.replace(made, signature=_signature(made, key()))
    text = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
    with whole(path, reads=reads) as place:
        place.write_bytes(text if path.suffix == ".json" else _junit(made))


def key() -> bytes:
    """The key that grades are signed with, of the file that the environment names; empty without one."""
    name = os.environ.get(KEY_VARIABLE)
    if not name:
        return b""
    text = plain_file(Path(name), most_bytes=1 << 16).read_bytes().strip()
    if len(text) < _KEY_BYTES:
        raise LabError(f"{name}: a key has at least {_KEY_BYTES} bytes: `openssl rand -hex 32 > {name}`")
    return text


def _signature(made: Grades, secret: bytes) -> str:
    if not secret:
        return ""
    unsigned = msgspec.json.encode(msgspec.structs.replace(made, signature=""))
    return hmac.new(secret, unsigned, hashlib.sha256).hexdigest()


def _digest_of_grader() -> str:
    """The digest of the grader and of all that it knows of the exercises."""
    digest = hashlib.sha256()
    for top in (Path(__file__).parent, sealed.root(store.repository_root())):
        for path in sorted(top.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                content = path.read_bytes()
                digest.update(f"{path.relative_to(top).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _junit(made: Grades) -> bytes:
    suites = ElementTree.Element("testsuites", {"name": SCHEMA, **_counts(made.parts)})
    by_exercise: dict[str, list[Grade]] = {}
    for one in made.parts:
        by_exercise.setdefault(one.id.rpartition(":")[0], []).append(one)
    for name, parts in by_exercise.items():
        about = {"name": name, "timestamp": made.graded, **_counts(parts)}
        suite = ElementTree.SubElement(suites, "testsuite", about)
        for one in parts:
            letter = one.id.rpartition(":")[2]
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=f"{letter}: {one.title}")
            if one.status == "failed":
                failure = ElementTree.SubElement(case, "failure", message=_NO_XML.sub("\ufffd", one.headline))
                failure.text = _NO_XML.sub("\ufffd", "\n".join(one.details))
            elif one.status != "passed":
                ElementTree.SubElement(case, "skipped", message=_NO_XML.sub("\ufffd", one.headline))
    ElementTree.indent(suites, " ")
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counts(parts: Sequence[Grade]) -> dict[str, str]:
    failed = sum(one.status == "failed" for one in parts)
    skipped = sum(one.status in ("not run", "to do") for one in parts)
    return {"tests": str(len(parts)), "failures": str(failed), "skipped": str(skipped), "errors": "0"}


def read(path: Path) -> Grades:
    """Read grades; `InputError` for a file that is missing, damaged, of another kind, of a newer version."""
    text = plain_file(path, most_bytes=_MOST_BYTES).read_bytes()
    asked = {"how": _HOW, "again": "grade again"}
    head = decoded(text, _Head, path, "grades", **asked)
    if head.schema != SCHEMA:
        raise InputError(f"{path}: JSON, but no grades: its schema is not {SCHEMA!r}; {_HOW}")
    if not isinstance(head.version, int) or head.version > VERSION:
        raise InputError(
            f"{path}: grades of version {head.version}, and this labcode knows {VERSION}; update labcode"
        )
    found = decoded(text, Grades, path, "grades", **asked)
    names = [one.id for one in found.parts]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: a part is graded twice; grade again")
    if (secret := key()) and not hmac.compare_digest(found.signature, _signature(found, secret)):
        what = "changed after it was signed, or signed with another key" if found.signature else "not signed"
        raise InputError(f"{path}: {what} (${KEY_VARIABLE} names the key); grade again")
    return found


def merge(paths: Sequence[Path], fmt: str, stream: TextIO) -> None:
    """Write a table of grades from files, or all ``.json`` of folders: one row per learner (a file's name).

    A column for each exercise that one of them has begun says how many parts passed, of how many.
    """
    from labcode.analysis.stats.table import texts_of
    from labcode.analysis.stats.writer import write as write_table
    from labcode.show import check_format

    check_format(fmt)
    files = [file for path in paths for file in files_of(path)]
    read_ones = {name: read(file) for file, name in base_names(files).items()}
    of_each = [_by_exercise(found.parts) for found in read_ones.values()]
    begun = {
        exercise
        for grades in of_each
        for exercise, parts in grades.items()
        if any(one.status != "to do" for one in parts)
    }
    columns: dict[str, list[str]] = {"learner": list(read_ones)}
    for exercise in sorted(begun):
        found = [grades.get(exercise, []) for grades in of_each]
        columns[exercise] = [f"{_passed(parts)}/{len(parts)}" if parts else "" for parts in found]
    everything = [found.parts for found in read_ones.values()]
    columns["parts"] = [f"{_passed(parts)}/{len(parts)}" for parts in everything]
    columns["not run"] = [str(sum(one.status == "not run" for one in parts)) for parts in everything]
    columns["points"] = [
        f"{sum(one.worth for one in parts if one.status == 'passed'):.1f}" for parts in everything
    ]
    write_table({name: texts_of(values) for name, values in columns.items()}, fmt, stream)


def files_of(path: Path) -> list[Path]:
    """A file of grades itself, or all ``.json`` of a folder; `InputError` where there is none."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.json"))
    if not found:
        raise InputError(f"{path}: no .json in this folder; {_HOW}")
    return found


def _by_exercise(parts: Sequence[Grade]) -> dict[str, list[Grade]]:
    grouped: dict[str, list[Grade]] = {}
    for one in parts:
        grouped.setdefault(_short(one), []).append(one)
    return grouped


def _short(one: Grade) -> str:
    match = re.match(r".*?-ex\d\d", one.id)
    return match.group() if match else one.id


def _passed(parts: Sequence[Grade]) -> int:
    return sum(one.status == "passed" for one in parts)
