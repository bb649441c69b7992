"""``labcode exercises``: ids and flags in; verdicts, hints, watching, resetting, an exit code out."""

import hashlib
import multiprocessing
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labcode import store
from labcode.errors import LabError
from labcode.grading import (
    catalogue,
    execution,
    generate,
    grade,
    jail,
    keys,
    needs,
    predictions,
    progress,
    sealed,
)
from labcode.grading.records import MAX_STARS, Exercise, Part, Verdict
from labcode.outputs import private_folder
from labcode.show.terminal import beside, escape

_POLL_S = 0.5
_BAR = 24  # characters
_FAILED_SHOWN = 10
_MOST_BYTES = 1 << 20  # of an answer that was handed in
_MARKS = {"passed": "[green]✔[/]", "failed": "[red]✘[/]", "not run": "[yellow]–[/]", "to do": " "}
Chosen = tuple[Exercise, Part]


def main(
    ids: list[str],
    *,
    hint: bool,
    watch: bool,
    reset: str | None,
    solutions: bool,
    console: Console,
    root: Path | None = None,
    grades: Path | None = None,
    answers: Path | None = None,
    isolated: bool = False,
    export: Path | None = None,
    beside: Path | None = None,
) -> int:
    """Do what the command line asks.

    ``grades`` is a file to write the verdicts to, ``answers`` a folder to grade in place of ``exercises/``,
    ``isolated`` in a jail; ``export`` is a file to write one's predictions to, ``beside`` one with others to
    show.
    0: all that ran passed, if any; 1: something did not pass; `LabError` (exit code 2): bad use.
    """
    judging = grades is not None or answers is not None
    if sum([hint, watch, reset is not None, solutions, judging]) > 1:
        raise LabError(
            "exercises: --hint, --watch, --reset and --solutions exclude one another, "
            "and --grades and --answers go with none of them"
        )
    if isolated and answers is None:
        raise LabError("exercises: --isolated goes with --answers FOLDER, what was handed in")
    if ids and (solutions or reset is not None):
        raise LabError("exercises: --solutions takes no exercise, and --reset takes one, the one after it")
    predicting = export is not None or beside is not None
    if predicting and (judging or hint or watch or solutions or reset is not None or set(ids) - {"predict"}):
        raise LabError("exercises: --export and --with go with nothing else, or with the kind: predict")
    home = root or store.repository_root()
    if not (home / "solutions").is_dir():
        raise LabError(
            f"{home}: no exercises here; clone the book's repository and run this there, or set LABCODE_HOME"
        )
    if solutions:
        return check_solutions(home, console)
    if reset is not None:
        return _reset(home, reset, console)
    if predicting:
        return _predictions(home, export, beside, console)
    whole = [text for text in ids if any(text in (one.book_part, one.kind) for one in catalogue.EXERCISES)]
    if whole and whole == ids and not (judging or hint or watch):
        return _list(home, console, whole)
    chosen = [pair for text in dict.fromkeys(ids) for pair in _parts(text)]
    if judging:
        with jail.isolated() if isolated else nullcontext():
            return _judge(home, chosen, grades, answers, console)
    if hint:
        return _hint(home, chosen, console)
    if watch:
        with keys.single():
            return watch_parts(home, chosen, console)
    if chosen:
        return max([int(_grade_one(home, pair, console) == "failed") for pair in dict.fromkeys(chosen)])
    return _list(home, console)


def _parts(text: str) -> list[Chosen]:
    """The parts that a text names: one, those of an exercise, of a part of the book, or of a kind."""
    named = [one for one in catalogue.EXERCISES if text in (one.book_part, one.kind)]
    if named:
        return [(one, part) for one in named for part in one.parts]
    exercise, part = catalogue.find(text)
    return [(exercise, p) for p in exercise.parts if part in (None, p)]


def _file(home: Path, pair: Chosen, top: str = "exercises") -> Path:
    if top == "solutions":
        return sealed.root(home) / pair[0].source(pair[1])
    return home / top / pair[0].path(pair[1])


def _judge(
    home: Path, chosen: Sequence[Chosen], target: Path | None, answers: Path | None, console: Console
) -> int:
    """Grade every part chosen, or all, anew; progress is neither read nor kept."""
    from labcode.grading import grades

    if target is not None:
        grades.check_target(target)
    folder = home / "exercises" if answers is None else _answers(answers)
    everything = [(exercise, part) for exercise in catalogue.EXERCISES for part in exercise.parts]
    found, files = [], []
    with console.status("grading …") as status:
        for exercise, part in dict.fromkeys(chosen) or everything:
            name, file = f"{exercise.short}{part.letter}", folder / exercise.path(part)
            status.update(f"grading {name} …")
            if answers is not None and (unfit := _unfit(folder, file)):
                verdict = Verdict("failed", unfit)
            elif not file.is_file():
                verdict = Verdict("to do", "no such file was handed in")
            elif _untouched(home, (exercise, part), file):
                verdict = Verdict("to do", "still the starter")
            else:
                verdict = grade.grade(exercise, part, file)
            found.append(grades.grade(exercise, part, file, verdict))
            files.append(file)
            if verdict.status != "to do" or chosen:
                console.print(
                    f"{_MARKS[verdict.status]} {name} {escape(verdict.headline)}",
                    highlight=False,
                    soft_wrap=True,
                )
    if target is not None:
        grades.write(target, found, reads=files, isolated=jail.current() is not None)
    passed = sum(one.status == "passed" for one in found)
    points, worth = (sum(one.worth for one in found if one.status in of) for of in (("passed",), _MARKS))
    console.print(
        f"{passed} of {len(found)} parts passed, {points:.1f} of {worth:.1f} points", highlight=False
    )
    return int(any(one.status == "failed" for one in found))


def _unfit(folder: Path, file: Path) -> str:
    """Why a file that was handed in is not even read: a link, or far too large; empty where it is."""
    for place in (file, *file.parents):
        if place == folder:
            break
        if place.is_symlink():
            return f"{place.relative_to(folder).as_posix()} is a link: hand in the file itself"
    if file.is_file() and file.stat().st_size > _MOST_BYTES:
        return f"larger than {_MOST_BYTES >> 10} KiB: hand in your answer alone"
    return ""


def _answers(folder: Path) -> Path:
    """The folder that is laid out as ``exercises/``: the one that was named, or that one within it."""
    for place in (folder / "exercises", folder):
        if any((place / exercise.folder).is_dir() for exercise in catalogue.EXERCISES):
            return place
    raise LabError(
        f"{folder}: no folder of an exercise in it, such as {catalogue.EXERCISES[0].folder}; "
        "name a learner's copy, or its folder exercises"
    )


def _grade(home: Path, pair: Chosen, console: Console, *, compiling: bool = True) -> Verdict:
    """Grade a part and keep the result."""
    exercise, part = pair
    file = _file(home, pair)
    verdict = grade.grade(exercise, part, file, compiling=compiling)
    if verdict.status == "not run":
        return verdict
    done, line = progress.load(home)
    _warn(console, line)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    after = progress.graded(
        done,
        exercise.part_id(part),
        verdict.status == "passed",
        _digest(home, pair),
        verdict.headline,
        verdict.score,
        verdict.pace,
        tuple(replace(one, at=now) for one in verdict.predictions),
        failed=verdict.status == "failed" and not part.needs,
    )
    _warn(console, progress.save(home, after))
    return verdict


def _digest(home: Path, pair: Chosen) -> str:
    """What a verdict depends on: the learner's file, and the exercise's folder with what its part shares."""
    folder = sealed.root(home) / pair[0].folder
    digest = hashlib.sha256()
    for path in [_file(home, pair), *sorted([*folder.iterdir(), *folder.parent.glob("*.py")])]:
        if path.is_file():
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _grade_one(home: Path, pair: Chosen, console: Console) -> str:
    """Grade a part and say so; the verdict's status."""
    exercise, part = pair
    console.print(f"[bold]{exercise.short}{part.letter}[/]  {exercise.title}: {part.title}", highlight=False)
    before = _best(home, pair, console)
    verdict = _grade(home, pair, console)
    console.print(f"  {_MARKS[verdict.status]} {escape(verdict.headline)}", highlight=False, soft_wrap=True)
    for line in verdict.details:
        console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
    if verdict.score is not None:
        kept = progress.load(home)[0].get(exercise.part_id(part), progress.PartProgress()).score
        console.print(f"    the first prediction counts: {kept or 0.0:.2f} of 1", highlight=False)
    if verdict.pace is not None:
        best = _best(home, pair, console)
        news = "a new personal best" if best.best_text != before.best_text else "your personal best"
        after = f" (before: {before.best:.2f} ×)" if before.best is not None and best != before else ""
        console.print(f"    {news}: {best.best_text or 'none has passed yet'}{after}", highlight=False)
    if verdict.status == "passed" and not sealed.is_sealed(home):
        shown = _file(home, pair, "solutions").relative_to(home).as_posix()
        console.print(f"    [dim]the model's answer: {shown}[/]", highlight=False, soft_wrap=True)
    if verdict.status in ("failed", "to do"):
        hint = grade.command(f"{exercise.short}{part.letter}", "--hint")
        console.print(
            f"    [dim]edit {_shown_path(home, pair)}; `{hint}` helps[/]",
            highlight=False,
            soft_wrap=True,
        )
    return verdict.status


def _best(home: Path, pair: Chosen, console: Console) -> progress.PartProgress:
    """What is kept of a part: its personal best alone."""
    done, line = progress.load(home)
    _warn(console, line)
    kept = done.get(pair[0].part_id(pair[1]), progress.PartProgress())
    return progress.PartProgress(best=kept.best, best_text=kept.best_text)


def _list(home: Path, console: Console, parts: Sequence[str] = ()) -> int:
    """Grade all that was begun, and list it; what needs a GPU is compiled only where it is named.

    Of each part of the book a line, and the exercises of the one that comes next; of ``parts``, or kinds, all
    there is.
    """
    done, line = progress.load(home)
    _warn(console, line)
    chosen = [one for one in catalogue.EXERCISES if not parts or {one.book_part, one.kind} & set(parts)]
    lines: dict[str, list[str]] = {one.book_part: [] for one in chosen}
    short: dict[str, list[str]] = {one.book_part: [] for one in chosen}
    counts = {part: {"passed": 0, "failed": 0, "not run": 0, "to do": 0} for part in lines}
    failed = []
    with console.status("grading …") as status:
        for exercise in chosen:
            stars = "★" * exercise.stars + "☆" * (MAX_STARS - exercise.stars)
            kind = "" if exercise.kind == "code" else f"{exercise.kind}, "
            what = f"{stars} {exercise.minutes} min, {kind}{exercise.chapter}"
            lines[exercise.book_part].append(f"[bold]{exercise.short}  {exercise.title}[/]  {what}")
            letters = ""
            for part in exercise.parts:
                status.update(f"grading {exercise.short}{part.letter} …")
                state, result = _standing(home, (exercise, part), done, console)
                mark = _MARKS[state]
                counts[exercise.book_part][state] += 1
                before = done.get(exercise.part_id(part))
                if state != "passed" and before is not None and before.passed:
                    result += " [dim](an earlier version passed)[/]"
                if before is not None and before.best_text and before.best_text not in result:
                    result += f" [dim](personal best: {escape(before.best_text)})[/]"
                text = f"{mark} {exercise.short}{part.letter}  {part.title}: {result}"
                lines[exercise.book_part].append(text)
                failed += [text] if state == "failed" else []
                letters += f" {part.letter}{mark}"
            short[exercise.book_part].append(f"  {exercise.short}{letters}  {exercise.title}, {what}")
    total = {state: sum(one[state] for one in counts.values()) for state in _MARKS}
    words = ", ".join(f"{count} {state}" for state, count in total.items() if count and state != "passed")
    following = _next(home, done=None, of=chosen) or _next(home, done=None)
    said = f"{total['passed']} of {sum(total.values())} parts passed{'; ' + words if words else ''}"
    console.print(f"{_bar(total)}: {said}", highlight=False)
    for name in lines:
        if parts:
            shown = lines[name]
        else:
            console.print(f"{name:<{max(map(len, lines))}} {_bar(counts[name])}", highlight=False)
            shown = short[name] if following is not None and following[0].book_part == name else []
        for text in shown:
            console.print(text, highlight=False, soft_wrap=True)
    for text in failed[:_FAILED_SHOWN] if not parts else ():
        console.print(text, highlight=False, soft_wrap=True)
    if following is not None:
        exercise, part = following
        console.print(
            f"next: edit {_shown_path(home, following)}, then "
            f"`{grade.command(f'{exercise.short}{part.letter}')}` "
            "(--hint for a hint, --watch to grade on every save); "
            f"`{grade.command(exercise.book_part)}` lists what there is",
            highlight=False,
            soft_wrap=True,
        )
    return int(total["failed"] > 0)


def _predictions(home: Path, export: Path | None, beside: Path | None, console: Console) -> int:
    """Write one's predictions to a file; show them with those of another, of which one's own are left out."""
    done, line = progress.load(home)
    _warn(console, line)
    found = predictions.of_exercises(done, catalogue.EXERCISES)
    if export is not None:
        predictions.write(export, found)
        console.print(f"{escape(str(export))}: {len(found)} predictions", highlight=False, soft_wrap=True)
    if beside is not None:
        own = {one.id for one in found}
        found += [one for one in predictions.read(beside) if one.id not in own]
        for text in predictions.lines(found):
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    return 0


def _standing(home: Path, pair: Chosen, done: progress.Progress, console: Console) -> tuple[str, str]:
    """How a part stands, graded if it was begun and is not known: its status and what is said of it."""
    part = pair[1]
    if _untouched(home, pair, _file(home, pair)):
        missing = needs.missing(part.needs)
        here = f", on {needs.in_words(part.needs)}" if part.needs else ""
        return "to do", f"to do, not here: needs {needs.in_words(missing)}" if missing else f"to do{here}"
    verdict = _known(home, pair, done) or _grade(home, pair, console, compiling=False)
    return verdict.status, escape(verdict.headline)


def _bar(counts: Mapping[str, int]) -> str:
    """How many of the parts passed, drawn and in numbers: ``████░░░░ 16/75``."""
    passed, total = counts["passed"], sum(counts.values())
    full = _BAR * passed // total if total else 0
    return f"[green]{'█' * full}[/]{'░' * (_BAR - full)} {passed}/{total}"


def _known(home: Path, pair: Chosen, done: progress.Progress) -> Verdict | None:
    """The verdict on a file that was graded and is unchanged, as is its exercise."""
    entry = done.get(pair[0].part_id(pair[1]))
    if entry is None or not (entry.passed or entry.failed_sha256):
        return None
    digest = _digest(home, pair)
    if entry.failed_sha256 == digest:
        return Verdict("failed", entry.failed_headline)
    return Verdict("passed", entry.headline) if entry.passed and entry.passed_sha256 == digest else None


def _untouched(home: Path, pair: Chosen, file: Path) -> bool:
    """Whether a learner's file still is the starter."""
    source = _file(home, pair, "solutions")
    if not (source.is_file() and file.is_file()):
        return False
    return file.read_text(encoding="utf-8", errors="replace") == generate.starter_of(sealed.root(home), *pair)


def _next(
    home: Path,
    done: progress.Progress | None,
    without: Sequence[Chosen] = (),
    of: Sequence[Exercise] = catalogue.EXERCISES,
) -> Chosen | None:
    """The first part of some exercises that has not passed and can be run here, ``without`` some."""
    if done is None:
        done, _ = progress.load(home)
    for exercise in of:
        for part in exercise.parts:
            entry = done.get(exercise.part_id(part))
            if (exercise, part) in without:
                continue
            if (entry is None or not entry.passed) and not needs.missing(part.needs):
                return exercise, part
    return None


def _hint(home: Path, chosen: Sequence[Chosen], console: Console) -> int:
    """Show one hint more: of the first part chosen that has not passed, or of the next one of all."""
    done, line = progress.load(home)
    _warn(console, line)
    if chosen:
        open_ones = [pair for pair in chosen if not _passed(done, pair)]
        pair = (open_ones or list(chosen))[0]
    else:
        following = _next(home, done)
        if following is None:
            console.print("every part that can run here has passed: no hint left to give")
            return 0
        pair = following
    exercise, part = pair
    entry = done.get(exercise.part_id(part), progress.PartProgress())
    shown = min(entry.hints + 1, len(part.hints))
    console.print(f"[bold]{exercise.short}{part.letter}[/]  {part.title}", highlight=False)
    for number, text in enumerate(part.hints[:shown], start=1):
        style = "" if number == shown else "dim"
        line = f"  hint {number} of {len(part.hints)}: {text}"
        console.print(line, markup=False, highlight=False, style=style, soft_wrap=True)
    if shown == len(part.hints) and entry.hints >= shown:
        where = (
            "the answer is sealed in this copy: ask who handed it out"
            if sealed.is_sealed(home)
            else f"the answer is in {_file(home, pair, 'solutions').relative_to(home).as_posix()}"
        )
        console.print(f"  that was the last hint; {where}", highlight=False)
    _warn(console, progress.save(home, progress.hinted(done, exercise.part_id(part), shown)))
    return 0


def _passed(done: progress.Progress, pair: Chosen) -> bool:
    entry = done.get(pair[0].part_id(pair[1]))
    return entry is not None and entry.passed


def watch_parts(
    home: Path,
    chosen: Sequence[Chosen],
    console: Console,
    *,
    wait: Callable[[float], str | None] = keys.wait,
) -> int:
    """Grade on every save until Ctrl-C or q; without a choice, one part after the other as they pass.

    ``wait`` gives the key that was pressed meanwhile, if any. A save interrupts the grading of what was
    there before.
    """
    roam = not chosen
    states: dict[Chosen, tuple[int, int]] = {}
    found: dict[Chosen, str] = {}
    left_out: list[Chosen] = []
    passed: Chosen | None = None
    try:
        while True:
            if roam:
                following = _next(home, done=None, without=left_out)
                if following is None:
                    console.print("every part that can run here has passed, or was left out")
                    return 0
                chosen = [following]
            news = False
            for pair in chosen:
                state = _state(_file(home, pair))
                if states.get(pair) == state:
                    continue
                news, states[pair] = True, state
                status = _grade_watched(home, pair, console, state)
                if status is None:
                    del states[pair]  # it was saved meanwhile
                    break
                found[pair] = status
                passed = pair if status == "passed" else passed
            if any(pair not in states for pair in chosen):
                continue
            if roam and news and found.get(chosen[0]) in ("passed", "not run"):
                if not _passed(progress.load(home)[0], chosen[0]):
                    return 0  # it could not be graded whole here; say so once instead of going round
                continue
            if news:
                after = ", s the model's answer" if passed is not None else ""
                words = f"watching; save to grade again; n next, h hint, l list, r reset{after}, q quit"
                console.print(f"  [dim]{words}[/]", highlight=False)
            key = wait(_POLL_S)
            if key == "q":
                break
            if key == "n":
                left_out += chosen
                roam = True
            elif key == "h":
                _hint(home, chosen, console)
            elif key == "l":
                _list(home, console)
            elif key == "r":
                for pair in chosen:
                    _reset(home, f"{pair[0].short}{pair[1].letter}", console)
            elif key == "s" and passed is not None:
                _beside(home, passed, console)
    except KeyboardInterrupt:
        pass
    console.print("stopped watching")
    return int(any(found.get(pair) == "failed" for pair in chosen))


def _grade_watched(home: Path, pair: Chosen, console: Console, state: tuple[int, int]) -> str | None:
    """Grade a part and say so; None when its file was saved meanwhile."""
    file = _file(home, pair)
    execution.interrupting.append(lambda: _state(file) != state)
    try:
        return _grade_one(home, pair, console)
    except execution.InterruptedGradingError:
        console.print("  [dim]saved again meanwhile[/]", highlight=False)
        return None
    finally:
        execution.interrupting.pop()


def _beside(home: Path, pair: Chosen, console: Console) -> None:
    """A learner's answer and the model's, side by side."""
    table = beside("yours", "the model's")
    model = generate.model_of(sealed.root(home), *pair)
    texts = _file(home, pair).read_text(encoding="utf-8", errors="replace"), model
    table.add_row(*(Text(text.strip("\n")) for text in texts))
    console.print(table)


def _state(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _reset(home: Path, text: str, console: Console) -> int:
    """Put starters back; what the learner wrote stays beside them as ``.bak``."""
    for pair in _parts(text):
        done, line = progress.load(home)
        _warn(console, line)
        _warn(console, progress.save(home, progress.reopened(done, pair[0].part_id(pair[1]))))
        file = _file(home, pair)
        fresh = generate.starter_of(sealed.root(home), *pair)
        name = _shown_path(home, pair)
        if file.is_file():
            if file.read_text(encoding="utf-8", errors="replace") == fresh:
                console.print(f"{name} is the starter already", highlight=False)
                continue
            backup = _free_backup(file)
            shutil.copy2(file, backup)
            console.print(f"{name}: the starter is back, your file is kept as {backup.name}", highlight=False)
        else:
            console.print(f"{name}: the starter is back", highlight=False)
        generate.write(file, fresh)
    return 0


def _free_backup(file: Path) -> Path:
    backup, number = file.with_name(file.name + ".bak"), 1
    while backup.exists():
        number += 1
        backup = file.with_name(f"{file.name}.bak{number}")
    return backup


def check_solutions(home: Path, console: Console) -> int:
    """For authors: starters come from their solutions and fail, solutions pass, nothing else lies about."""
    if sealed.is_sealed(home):
        raise LabError("exercises: the solutions of this copy are sealed; check them where it was made")
    wrong = generate.generate(home, check=True)
    for line in wrong:
        console.print(f"{_MARKS['failed']} {escape(line)}", highlight=False, soft_wrap=True)
    skipped = 0
    pairs = [
        (exercise, part)
        for exercise in catalogue.EXERCISES
        for part in exercise.parts
        if _file(home, (exercise, part), "solutions").is_file() and _file(home, (exercise, part)).is_file()
    ]
    # Side by side where nothing is measured; each verdict comes from a process of its own anyway.
    beside = [pair for pair in pairs if not pair[1].needs]
    with ProcessPoolExecutor(min(8, os.cpu_count() or 1), multiprocessing.get_context("fork")) as pool:
        judged = dict(zip(map(_name, beside), pool.map(_both, [home] * len(beside), beside), strict=True))
        for pair in pairs:
            name = _name(pair)
            solved, unsolved = judged[name] if name in judged else _both(home, pair)
            console.print(
                f"{_MARKS[solved.status]} {name} solution: {escape(solved.headline)}",
                highlight=False,
                soft_wrap=True,
            )
            for line in solved.details:
                console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
            if solved.status == "failed":
                wrong.append(f"{name}: the solution fails")
            skipped += solved.status == "not run"
            if unsolved.status == "passed" or (unsolved.status == "not run" and solved.status != "not run"):
                wrong.append(f"{name}: the starter passes")
                console.print(
                    f"{_MARKS['failed']} {name} starter: {escape(unsolved.headline)}",
                    highlight=False,
                    soft_wrap=True,
                )
    if wrong:
        console.print(f"{len(wrong)} things are wrong with the exercises", highlight=False)
    else:
        words = f" ({skipped} parts could not be run whole here)" if skipped else ""
        console.print(
            f"starters are cut from their solutions, fail as they should, and solutions pass{words}",
            highlight=False,
        )
    return int(bool(wrong))


def _name(pair: Chosen) -> str:
    return f"{pair[0].short}{pair[1].letter}"


def _both(home: Path, pair: Chosen) -> tuple[Verdict, Verdict]:
    """The verdicts on a part's solution and on its starter."""
    return _solved(home, pair), grade.grade(*pair, _file(home, pair))


def _solved(home: Path, pair: Chosen) -> Verdict:
    """The verdict on a part's solution; of a sheet, on what the solution computes."""
    if not pair[1].is_sheet:
        return grade.grade(*pair, _file(home, pair, "solutions"))
    try:
        text = generate.model_of(sealed.root(home), *pair)
    except LabError as error:
        return grade.not_run(str(error))
    with private_folder() as folder:
        file = folder / pair[1].file
        file.write_text(text, encoding="utf-8")
        return grade.grade(*pair, file, own=False)


def _shown_path(home: Path, pair: Chosen) -> str:
    return _file(home, pair).relative_to(home).as_posix()


def _warn(console: Console, line: str) -> None:
    if line:
        console.print(f"[yellow]{escape(line)}[/]", highlight=False)
