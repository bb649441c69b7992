"""Cut the starters out of the solutions: marked source files in, the files of ``exercises/`` out.

A region that the learner has to write is marked by comments on lines of their own (``//`` instead of ``#`` in
CUDA files)::

    # [solution]
    return 1 - busy / (end - start)
    # [starter]
    # raise NotImplementedError("divide the idle time by the window")
    # [end]

(``--`` in SQL files.) In the starter the whole block is replaced by the lines after ``[starter]``, without
their comment sign and the blank after it. Without ``[starter]`` the region disappears. Everything outside
of regions is the same in both files.
"""

import ast
import difflib
import re
from pathlib import Path

from labcode.errors import LabError
from labcode.grading.catalogue import EXERCISES
from labcode.grading.records import Exercise, Part
from labcode.outputs import whole

SIGNS = {".py": "#", ".cu": "//", ".sql": "--"}
_HIDDEN = ("cases.py", "mistakes.toml")
_ON_GPU = ("gpu.py", "harness.py", "harness.cu")
IGNORED = ("*.bak", "*.bak[0-9]*", ".*", "__pycache__", "README.md")


def starter(source: str, name: str) -> str:
    """The starter's text for a solution's text; ``name`` is the file's name for messages.

    `LabError` for bad markers.
    """
    sign = SIGNS.get(Path(name).suffix)
    if sign is None:
        raise LabError(f"{name}: only {', '.join(SIGNS)} files can be cut into starters")
    out: list[str] = []
    state, opened = "outside", 0
    for number, line in enumerate(source.splitlines(), start=1):
        marker = _marker(line, sign)
        if marker == "solution":
            if state != "outside":
                raise LabError(f"{name}:{number}: [solution] inside the region that begins at line {opened}")
            state, opened = "solution", number
        elif marker == "starter":
            if state != "solution":
                raise LabError(f"{name}:{number}: [starter] without a [solution] before it")
            state = "starter"
        elif marker == "end":
            if state == "outside":
                raise LabError(f"{name}:{number}: [end] without a [solution] before it")
            state = "outside"
        elif state == "outside":
            out.append(line)
        elif state == "starter":
            out.append(_uncommented(line, sign, name, number))
    if state != "outside":
        raise LabError(f"{name}:{opened}: [solution] without an [end] after it")
    if not opened:
        raise LabError(f"{name}: no marked region, so the starter would be the solution")
    text = "\n".join(out) + "\n"
    if sign == "#":
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise LabError(
                f"{name}: the starter would not be valid Python (its line {error.lineno}: {error.msg})"
            ) from None
    return text


def starter_of(solutions: Path, exercise: Exercise, part: Part) -> str:
    """The starter of a part, from the folder of the solutions."""
    if part.is_sheet:
        from labcode.grading import sheet

        return sheet.read(solutions, exercise, part).starter(f"{exercise.short}{part.letter}")
    source = exercise.source(part)
    return starter((solutions / source).read_text(encoding="utf-8"), f"solutions/{source}")


def model_of(solutions: Path, exercise: Exercise, part: Part) -> str:
    """A part's right answer as a learner would write it; of a sheet it is computed from the captures."""
    if part.is_sheet:
        from labcode.grading import sheet

        asked = sheet.read(solutions, exercise, part)
        return asked.filled(f"{exercise.short}{part.letter}", asked.answers().right)
    return finished((solutions / exercise.source(part)).read_text(encoding="utf-8"))


def finished(source: str) -> str:
    """A solution's text without its markers and without what the starter has in their place."""
    out, inside = [], False
    for line in source.splitlines():
        marker = next((found for sign in SIGNS.values() if (found := _marker(line, sign))), None)
        inside = marker == "starter" or (inside and marker is None)
        if marker is None and not inside:
            out.append(line)
    return "\n".join(out) + "\n"


def generate(root: Path, check: bool, exercises: tuple[Exercise, ...] = EXERCISES) -> list[str]:
    """Write all starters into ``root/exercises`` from ``root/solutions``; gives what was changed or is wrong.

    With ``check`` nothing is written: each starter that differs from what would be generated is a line of the
    answer, as is each file that belongs to no exercise and each file of the catalogue that is missing.
    """
    found: list[str] = []
    for exercise in exercises:
        for part in exercise.parts:
            path = exercise.path(part)
            source, target = root / "solutions" / exercise.source(part), root / "exercises" / path
            if not source.is_file():
                found.append(
                    f"solutions/{exercise.source(part)}: the catalogue names it "
                    f"({exercise.part_id(part)}), and it is not there"
                )
                continue
            text = starter_of(root / "solutions", exercise, part)
            have = target.read_text(encoding="utf-8") if target.is_file() else None
            if have == text:
                continue
            if check:
                found.append(
                    f"exercises/{path}: {_difference(have, text)}; `labcode.grading.generate` writes it anew"
                )
            else:
                write(target, text)
                found.append(f"exercises/{path}: written")
    return found + strays(root, exercises)


def strays(root: Path, exercises: tuple[Exercise, ...] = EXERCISES) -> list[str]:
    """Files below ``solutions/`` and ``exercises/`` that no exercise of the catalogue names."""
    files = {exercise.path(part) for exercise in exercises for part in exercise.parts}
    sources = {exercise.source(part) for exercise in exercises for part in exercise.parts}
    beside = {f"{exercise.folder}/exercise.toml" for exercise in exercises} | {
        f"{exercise.folder}/{part.letter}_{name}"
        for exercise in exercises
        for part in exercise.parts
        for name in (_ON_GPU if part.needs else () if part.is_sheet else _HIDDEN)
    }
    beside |= {one.removesuffix(".py") + ".trace.json.gz" for one in sources}  # the model's recording
    shared = {f"{exercise.book_part}/_shared.py" for exercise in exercises}
    lines = []
    for top, named in (("solutions", sources | beside | shared), ("exercises", files)):
        for path in sorted((root / top).rglob("*")):
            below = path.relative_to(root / top)
            if path.is_dir() or any(
                Path(piece).match(pattern) for piece in below.parts for pattern in IGNORED
            ):
                continue
            if below.as_posix() not in named:
                lines.append(
                    f"{top}/{below.as_posix()}: belongs to no exercise of the catalogue; add it "
                    f"there or remove it"
                )
    return lines


def write(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as made:
        made.write_text(text, encoding="utf-8", newline="\n")


def _marker(line: str, sign: str) -> str | None:
    match = re.fullmatch(rf"\s*{re.escape(sign)} ?\[(solution|starter|end)\]\s*", line)
    return match.group(1) if match else None


def _uncommented(line: str, sign: str, name: str, number: int) -> str:
    if not line.strip():
        return ""
    match = re.fullmatch(rf"(\s*){re.escape(sign)} ?(.*)", line)
    if match is None:
        raise LabError(f"{name}:{number}: a line of the starter's text must be a comment ({sign} …)")
    return (match.group(1) + match.group(2)).rstrip()


def _difference(have: str | None, text: str) -> str:
    if have is None:
        return "missing"
    changed = [
        line
        for line in difflib.unified_diff(have.splitlines(), text.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    return f"differs from what its solution gives in {len(changed)} lines"
