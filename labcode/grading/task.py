"""What is hidden of an exercise's part: its folder in; cases, right answers, and reasons for wrong ones out.

Beside the solution of a part that needs no GPU, say ``a_idle.py``, lie

- ``a_cases.py`` with ``cases(rng)``, the inputs drawn from a random generator; ``exam(captures)``, if it is
  asked about captures that no page shows, which raises `LabError` when the set has none; ``notes(captures,
  answered)``, lines on what the answers reveal about them, told once the part has passed (``answered`` are
  the exam's cases, each with the right answer); and ``AGREES_WITH``, functions that give the same answers in
  another way, by name, which a test holds the solution to;
- ``a_mistakes.toml`` with ``[[mistakes]]``, each a change of the solution's text (``old``, ``new``: texts, or
  lists of as many) and what it ``says``, in which ``{got}`` and ``{expected}`` stand for the answers; and
  with ``[[equivalent]]``, mutants of the solution that give the same answers, each with the ``reason``.
"""

import ast
import contextlib
import difflib
import functools
import importlib
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.grading import cases, codec, records, remote, sealed, sql
from labcode.grading.cases import Case
from labcode.outputs import swept
from labcode.store import CaptureSet, repository_root

MISTAKES_LIMIT_S = 10.0
_OTHERS = 3  # right answers make a single wrong one tell what it lacks
SOLUTION_LIMIT_S = 120.0
Answered = tuple[Case, Any]  # a case, and what a learner's function answered


class TooSlowError(BaseException):
    """A call took too long; no `Exception`, so that what is called does not catch it."""


@dataclass(frozen=True)
class Mistake:
    """A typical mistake: what to say about it, the solution's text with it, the lines that it changes."""

    says: str
    source: str
    lines: frozenset[int]


class Task:
    """How a part that needs no GPU is graded: by its solution, the mistakes beside it, and ``a_cases``."""

    def __init__(self, part: records.Part, solution: Path, module: Any) -> None:
        self.part, self.solution, self.module = part, solution, module
        self.source = solution.read_text(encoding="utf-8")
        self.exam = self._exam if hasattr(self.module, "exam") else None
        self.notes = self._notes if hasattr(self.module, "notes") else None
        self._expected: dict[int, tuple[Case, Any]] = {}
        self._namespace = namespace(self.source, self.solution)
        self._mistaken: dict[int, dict[str, Any]] = {}
        self._given: dict[tuple[int, int], Any] = {}
        self._words: dict[str, tuple[str, ...]] = {}

    def generated(self, rng: np.random.Generator) -> list[Case]:
        """The cases with inputs drawn from a random generator, easy ones first."""
        return list(self.module.cases(rng))

    def _exam(self, captures: CaptureSet) -> list[Case]:
        return [replace(case, exam=True) for case in self.module.exam(captures)]

    def _notes(self, captures: CaptureSet) -> list[str]:
        answered = [(case, right) for case, right in self._expected.values() if case.exam]
        return list(self.module.notes(captures, answered))

    def expect(self, case: Case) -> Any:
        """The right answer to a case: what the solution gives, with what was measured in its place."""
        if id(case) not in self._expected:
            try:
                right = answer(self._namespace, case, SOLUTION_LIMIT_S)
            except (Exception, TooSlowError) as error:
                text = f"{type(error).__name__}: {error}"
                raise LabError(f"{self.solution}: the solution fails on “{case.name}”: {text}") from None
            self._expected[id(case)] = case, {**right, **case.measured} if case.measured else right
        return self._expected[id(case)][1]

    def judge(
        self, case: Case, got: Any, before: Sequence[Case] = (), later: Iterable[Answered] = ()
    ) -> tuple[str, ...]:
        """Lines that say what is wrong with an answer; none for a right one, as those ``before`` were.

        A reason has to fit what the function answered ``later``, too, which is asked for a wrong one alone.
        """
        expected = self.expect(case)
        if cases.matches(expected, got, case.relative):
            return ()
        after = [(one, answered) for one, answered in later if one.function == case.function]
        reason = (
            self.unknown_word(case, expected, got)
            or self._always(case, got, before, after)
            or self.mistaken(case, got, before, after)
            or cases.shape(expected, got, self._may_be_none(case, before))
            or self._generic(case, got, after)
        )
        lines = [*cases.compared(case.show, expected, got), cases.difference(expected, got, case.relative)]
        return tuple(line for line in (*lines, f"likely:   {reason}" if reason else "") if line)

    def _may_be_none(self, case: Case, before: Sequence[Case]) -> bool:
        """Whether a None is meant: it is among the function's answers, or an answer was right before."""
        kind = getattr(self._namespace.get(case.function), "__annotations__", {}).get("return", "")
        return "None" in str(kind) or any(one.function == case.function for one in before)

    def unknown_word(self, case: Case, expected: Any, got: Any) -> str:
        """In words: an answer, or an entry of it, is a word that there is not; it lists those there are."""
        if isinstance(expected, dict) and isinstance(got, dict):
            found = (self.unknown_word(case, one, got[key]) for key, one in expected.items() if key in got)
            return next(filter(None, found), "")
        if not (isinstance(expected, str) and isinstance(got, str)):
            return ""
        if f"'{got}'" in self.source or f'"{got}"' in self.source:
            return ""
        words = self.words(case.function)
        if expected not in words or len(words) < 2:
            return ""
        alike = {word.casefold(): word for word in words}
        close = [alike[one] for one in difflib.get_close_matches(got.casefold(), alike, n=1)]
        meant = f"; did you mean {close[0]!r}?" if close else ""
        return f"{got!r} is none of: {', '.join(map(repr, words))}{meant}"

    def words(self, function: str) -> tuple[str, ...]:
        """The words that are answers of a function, if the text of the exercise names them all in quotes."""
        if function not in self._words:
            drawn = self.generated(np.random.default_rng(0))
            found = {word for one in drawn if one.function == function for word in _words(self.expect(one))}
            named = dict.fromkeys(re.findall(r"'([^'\n]{1,40})'", self.source))
            self._words[function] = tuple(word for word in named if word in found and found <= set(named))
        return self._words[function]

    def _always(self, case: Case, got: Any, before: Sequence[Case], after: Sequence[Answered]) -> str:
        """In words: the function gives one and the same that tells nothing, which many a mistake does."""
        given = [(self.expect(one), self.expect(one)) for one in before if one.function == case.function]
        given += [(self.expect(one), answered) for one, answered in after]
        if (
            len(given) < 2
            or cases.telling([got])
            or not all(cases.matches(got, one, 0.0) for _, one in given)
        ):
            return ""
        if cases.shape(self.expect(case), got, may_be_none=True):
            return ""  # which says more
        if isinstance(got, str) and f"'{got}'" not in self.source and f'"{got}"' not in self.source:
            return ""  # something of the inputs
        return f"all {len(given) + 1} answers are {cases.brief(got, 60)}"

    def _generic(self, case: Case, got: Any, after: Sequence[Answered]) -> str:
        """A mistake that any answer can have, if all wrong ones of the function have the same."""
        said = cases.generic(case.share, self.expect(case), got)
        if not said or _gist(said) in cases.FACTS:
            return said
        if said.endswith("?") and "byte" not in self.source.lower():
            return ""  # a factor of 8, and nothing here is counted in bytes
        wrong = [one for one in after if not self._right(*one)]
        if _gist(said) in cases.TURNED and cases.by_chance([got, *(answered for _, answered in wrong)]):
            return ""
        percent = _gist(said) == cases.PERCENT  # also where the whole is more than 1
        given = [_gist(cases.generic(c.share or percent, self.expect(c), got)) for c, got in wrong]
        return said if set(given) <= {_gist(said)} else ""

    def mistaken(
        self, case: Case, got: Any, before: Sequence[Case] = (), after: Sequence[Answered] | None = None
    ) -> str:
        """What the mistake says that gives this wrong answer; empty when none does, or more than two do.

        A mistake that would have been wrong on another case, ``before`` or ``after``, where the answer was
        right, is another one; so is one that does not give all of the wrong answers ``after``. Where others
        might give the same, too, it is told as an example. Without ``after`` it is the first that gives this
        answer.
        """
        expected, fit = self.expect(case), list[str]()
        with contextlib.suppress(TooSlowError), limited(MISTAKES_LIMIT_S):
            for number, mistake in enumerate(self.mistakes):
                gives = self.given(number, case)
                if (
                    cases.alike(gives, got, case.relative)
                    and not cases.matches(expected, gives, case.relative)
                    and self._explains(number, before, after or ())
                ):
                    fit.append(_filled(mistake.says, expected, got))
        fit = list(dict.fromkeys(fit))
        others = [one for one in before if one.function == case.function]
        if after is None:
            return fit[0] if fit else ""
        if len(fit) > 2:
            return ""
        said = "; or else: ".join(fit)
        wrong = [got, *(answered for one, answered in after if not self._right(one, answered))]
        sure = cases.telling(wrong) or (len(wrong) == 1 and len(others) + len(after) >= _OTHERS)
        return said if sure or not said else f"a mistake such as “{said}”"

    def _explains(self, number: int, before: Sequence[Case], after: Sequence[Answered]) -> bool:
        """Whether a mistake gives all of the wrong answers from this one on, and is right where they are."""
        if not all(self._right(one, self.given(number, one)) for one in before):
            return False
        for one, answered in after:
            gives = self.given(number, one)
            if isinstance(gives, Exception):  # whose answer has an answer there may have the mistake, too
                continue
            if not cases.alike(gives, answered, one.relative):
                return False
        return True

    def _right(self, case: Case, answered: Any) -> bool:
        return cases.matches(self.expect(case), answered, case.relative)

    def given(self, number: int, case: Case) -> Any:
        """What the mistake of this number answers to a case, or the exception that it ends with."""
        key = number, id(case)
        if key not in self._given:
            try:
                if not self.reaches(self.mistakes[number].lines, case.function):
                    return self.expect(case)
                if number not in self._mistaken:
                    self._mistaken[number] = namespace(self.mistakes[number].source, self.solution)
                self._given[key] = answer(self._mistaken[number], case)
            except Exception as error:
                self._given[key] = error
        return self._given[key]

    def reaches(self, lines: Collection[int], function: str) -> bool:
        """Whether a change of these lines of the solution can change what a function of it answers."""
        uses = ([used for span, used in self._uses if line in span] for line in lines)
        return any(not found or function in found[0] for found in uses)

    @cached_property
    def _uses(self) -> list[tuple[range, set[str]]]:
        """The lines of each function of the solution; its name and the names of all that it is used by."""
        if self.solution.suffix == ".sql":
            return []
        body = [one for one in ast.parse(self.source).body if not isinstance(one, ast.If)]  # ``__main__``
        names = [({n.id for n in ast.walk(one) if isinstance(n, ast.Name)}, _defined(one)) for one in body]
        found = []
        for one in body:
            if isinstance(one, ast.FunctionDef):
                used, size = {one.name}, 0
                while len(used) > size:
                    size = len(used)
                    used |= {name for read, made in names if read & used for name in made}
                found.append((range(one.lineno, (one.end_lineno or one.lineno) + 1), used))
        return found

    @cached_property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The typical mistakes, in the order in which they are tried."""
        made = []
        for number, entry in enumerate(self._table("mistakes", {"says", "old", "new"}), start=1):
            changes = list(zip(*map(_texts, (entry["old"], entry["new"])), strict=False))
            if len(_texts(entry["old"])) != len(_texts(entry["new"])):
                raise LabError(f"{self._file}: mistake {number}: as many new texts as old ones")
            source, lines = self.source, set[int]()
            for old, new in changes:
                if old not in source:
                    raise LabError(
                        f"{self._file}: mistake {number}: {old!r} does not stand in {self.part.file}"
                    )
                lines |= _lines_of(old, self.source)
                source = source.replace(old, new)
            made.append(Mistake(str(entry["says"]), source, frozenset(lines)))
        return tuple(made)

    @cached_property
    def equivalent(self) -> dict[str, str]:
        """Mutants that no input tells from the solution, with the reason."""
        entries = self._table("equivalent", {"mutant", "reason"})
        return {str(entry["mutant"]): str(entry["reason"]) for entry in entries}

    @property
    def _file(self) -> Path:
        return self.solution.with_name(f"{self.part.letter}_mistakes.toml")

    def _table(self, name: str, fields: set[str]) -> list[dict[str, Any]]:
        data = records.read_toml(self._file)
        if unknown := set(data) - {"mistakes", "equivalent"}:
            raise LabError(f"{self._file}: unknown tables {sorted(unknown)}")
        for number, entry in enumerate(data.get(name, []), start=1):
            if set(entry) != fields:
                raise LabError(f"{self._file}: [[{name}]] {number} has exactly {', '.join(sorted(fields))}")
        return list(data.get(name, []))


def read(exercise: records.Exercise, part: records.Part) -> Task:
    """The task of a part, from the exercise's folder."""
    solution = sealed.root(repository_root()) / exercise.source(part)
    return Task(part, solution, beside(exercise, part, "cases"))


def beside(exercise: records.Exercise, part: records.Part, what: str) -> ModuleType:
    """The module ``a_cases`` or ``a_gpu`` in an exercise's folder."""
    root = str(sealed.root(repository_root()).parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    name = f"solutions.{exercise.folder.replace('/', '.')}.{part.letter}_{what}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise LabError(f"solutions/{exercise.folder}/{part.letter}_{what}.py is not there") from None


def namespace(source: str | ast.Module, file: Path) -> dict[str, Any]:
    """The names that a solution's text or tree defines; of a query, a function ``answer`` that runs it."""
    if file.suffix == ".sql" and isinstance(source, str):
        return {"answer": lambda export, columns: sql.answer(source, export, columns)}
    module = ModuleType("exercise")
    module.__file__ = str(file)
    sys.modules["exercise"] = module  # dataclasses look their module up
    exec(compile(source, str(file), "exec"), module.__dict__)
    return module.__dict__


def answer(names: dict[str, Any], case: Case, limit_s: float | None = None) -> Any:
    """The answer of a file's names to a case, as it comes back from a learner's process."""
    made = contextlib.nullcontext() if not any(map(_is_file, case.arguments)) else temporary_files()
    folder = str(Path(names.get("__file__", "")).parent)  # a part may import those beside it
    with made, importable(folder), limited(limit_s), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which would show the learner a line of the solution
        function, counting = names[case.function], remote.counting(case.arguments)
        if counting is None:
            return cases.plain(function(*codec.unpack(case.packed)))
        attendant = remote.Attendant()
        with attendant.here():
            found = cases.plain(function(*codec.unpack(case.packed)))
        return cases.plain(counting.told(found, attendant.machine.counts))


_prefix = functools.cache(swept)  # once: there are many calls, and each look costs milliseconds


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Folders and databases that are arguments are written to a folder that goes away."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix=_prefix()) as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def importable(folder: str) -> Iterator[None]:
    """Modules of a folder can be imported."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextlib.contextmanager
def limited(limit_s: float | None) -> Iterator[None]:
    """`TooSlowError` when it takes too much of the processor, where signals are at hand.

    A clock on the wall would end what is right on a machine that has other things to do.
    """
    if (
        limit_s is None
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def ring(*_: object) -> None:
        raise TooSlowError

    handler = signal.signal(signal.SIGPROF, ring)
    # again and again: what is raised while an object goes (a finalizer, a weak reference) is swallowed
    before = signal.setitimer(signal.ITIMER_PROF, limit_s, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *before)
        signal.signal(signal.SIGPROF, handler)


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _lines_of(piece: str, text: str) -> set[int]:
    """The numbers of the lines on which a piece of a text stands; 0, which is none, where it does not."""
    before, *after = text.split(piece)
    lines, number = set[int](), 1 + before.count("\n")
    for rest in after:
        lines |= set(range(number, number + piece.count("\n") + 1))
        number += (piece + rest).count("\n")
    return lines or {0}


def _words(answer: Any) -> set[str]:
    """The texts that are an answer, or entries of it."""
    if isinstance(answer, dict):
        return {word for one in answer.values() for word in _words(one)}
    return {answer} if isinstance(answer, str) else set()


def _is_file(argument: Any) -> bool:
    return isinstance(argument, codec.Folder | codec.Database)


def _texts(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else list(value)


def _gist(said: str) -> str:
    """What is said of an answer, without the keys that it is said of."""
    return re.sub(r"^under .*?: ", "", said)


def _filled(says: str, expected: Any, got: Any) -> str:
    try:
        return says.format(expected=expected, got=got) if "{got" in says or "{expected" in says else says
    except (LookupError, TypeError, AttributeError, ValueError):
        return says
