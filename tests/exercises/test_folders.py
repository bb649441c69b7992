"""What an exercise's folder promises: mistakes are told, mutants caught, solutions agree with the book."""

import contextlib
import functools
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from labcode.grading.cases import matches, plain
from labcode.grading.codec import pack, unpack
from labcode.grading.task import TooSlowError, answer, namespace
from tests.exercises.mutants import mutants
from tests.exercises.support import CODE, task

SEEDS = (0, 1)
MANY = 20  # seeds under which a mistake or a mutant is caught each time, or never: the rest is luck
# The tests of a part come one after another: whoever runs them answers its cases once.
EACH_PART = pytest.mark.parametrize("short", CODE, scope="module")
# Parts whose mistakes and mutants are all caught, or none, whatever the seed; the others are tried with two.
NO_LUCK = (
    "nsys-ex01a",
    "nsys-ex02a",
    "nsys-ex04a",
    "compute-ex01a",
    "compute-ex03a",
    "compute-ex05a",
    "compute-ex07a",
    "compute-ex08b",
    "compute-ex09a",
    "compute-ex10a",
    "compute-ex10b",
    "compute-ex11a",
    "advanced-ex04a",
    "advanced-ex04c",
    "energy-ex01a",
    "scaling-ex01a",
    "serving-ex32a",
)
MUTANT_LIMIT_S = 0.1  # of the CPU, however busy the machine is, and ten times what the solution takes


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """`TooSlowError` for what computes for too long."""

    def ring(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@functools.cache
def drawn(short: str, seed: int) -> list[Any]:
    """The cases of a part."""
    return task(short).generated(np.random.default_rng(seed))


@functools.cache
def right(short: str, seed: int, number: int) -> tuple[Any, float]:
    """The right answer to a case, and how many seconds a mutant may take for it."""
    begin = time.process_time()
    found = task(short).expect(drawn(short, seed)[number])
    return found, MUTANT_LIMIT_S + 10 * (time.process_time() - begin)


def answered(short: str, seed: int) -> list[tuple[Any, Any, float]]:
    """The cases; to each the right answer, and how many seconds a mutant may take for one."""
    return [(case, *right(short, seed, number)) for number, case in enumerate(drawn(short, seed))]


def differs(
    names: dict[str, Any], short: str, seed: int, line: int, function: str, told: Counter[str]
) -> bool | None:
    """Whether some case tells these names from the solution's; None where one was too slow.

    A function's own are first, of them those that ``told`` most before, then hard ones.
    """
    hard = reversed(list(enumerate(drawn(short, seed))))
    for number, case in sorted(hard, key=lambda one: (one[1].function != function, -told[one[1].name])):
        if not task(short).reaches({line}, case.function):
            continue
        expected, limit_s = right(short, seed, number)
        try:
            with limited(limit_s):
                got = answer(names, case)
            if matches(expected, got, case.relative):
                continue
        except TooSlowError:
            told[case.name] -= 2
            return None
        except Exception:
            pass
        told[case.name] += 1
        return True
    return False


def seeds(short: str) -> range:
    return range(MANY if short in NO_LUCK else len(SEEDS))


@EACH_PART
def test_every_mistake_is_told(short: str) -> None:
    """On some case each of them is wrong, and what it says is what is told."""
    found = task(short)
    silent = []
    for number, mistake in enumerate(found.mistakes):
        told = set()
        for case, right, limit_s in answered(short, 0):
            try:
                with limited(limit_s):
                    got = found.given(number, case)
            except TooSlowError:
                continue
            if not isinstance(got, Exception) and not matches(right, got, case.relative):
                told.add(words := found.mistaken(case, got))
                if _alike(mistake.says, words):
                    break
        else:
            silent.append((mistake.says, sorted(told)))
    assert silent == [], silent


@EACH_PART
def test_no_mistake_passes_by_luck(short: str) -> None:
    found, lucky, told = task(short), [], Counter[str]()
    for number, mistake in enumerate(found.mistakes):
        for seed in seeds(short):
            cases = sorted(enumerate(drawn(short, seed)), key=lambda one: -told[one[1].name])
            if not any(_wrong(short, seed, place, number, told) for place, _ in cases):
                lucky.append((mistake.says, seed))
        told.clear()
    assert lucky == []


def _wrong(short: str, seed: int, place: int, number: int, told: Counter[str]) -> bool:
    """Whether a mistake gives a wrong answer to a case."""
    case = drawn(short, seed)[place]
    expected, limit_s = right(short, seed, place)
    try:
        with limited(limit_s):
            got = task(short).given(number, case)
    except TooSlowError:
        return True
    if not isinstance(got, Exception) and matches(expected, got, case.relative):
        return False
    told[case.name] += 1
    return True


def _alike(says: str, words: str) -> bool:
    """Whether words are what is said, but for the answers in it."""
    pieces = says.replace("{", "}").split("}")[::2]
    return bool(words) and all(piece in words for piece in pieces)


@EACH_PART
def test_no_mutant_survives_but_those_that_are_equivalent(short: str) -> None:
    found = task(short)
    survivors, lucky, told = [], [], Counter[str]()
    for name, source, line in mutants(found.source, found.part.file):
        try:
            names = namespace(source, found.solution)
        except Exception:
            continue
        caught, endless = 0, 0
        for seed in seeds(short):
            different = differs(names, short, seed, line, name.partition(":")[0], told)
            caught += different is not False
            endless += different is None
            if endless > 1:  # each would take all the time there is
                caught = len(seeds(short))
                break
        survivors += [name] if caught < len(seeds(short)) else []
        lucky += [(name, caught)] if 0 < caught < len(seeds(short)) else []
    listed = found.equivalent
    assert lucky == [], "a seed decides"
    assert [name for name in survivors if name not in listed] == []
    assert [name for name in listed if name not in survivors] == [], "these are caught, or are no mutants"


@EACH_PART
@pytest.mark.parametrize("seed", SEEDS)
def test_solutions_agree_with_the_book(short: str, seed: int) -> None:
    others = getattr(task(short).module, "AGREES_WITH", {})
    for case, right, _ in answered(short, seed):
        if case.function in others:
            got = plain(others[case.function](*unpack(pack(case.arguments))))
            assert matches(right, got, case.relative), case.name


@EACH_PART
def test_hidden_inputs_are_drawn_anew_and_can_be_repeated(short: str) -> None:
    again = [case.arguments for case in task(short).generated(np.random.default_rng(0))]
    first, other = ([case.arguments for case, *_ in answered(short, seed)] for seed in SEEDS)
    assert [pack(arguments) for arguments in first] == [pack(arguments) for arguments in again]
    changed = [pack(a) != pack(b) for a, b in zip(first, other, strict=True)]
    assert sum(changed) >= len(changed) // 3, "an answer written down by hand must not pass"
