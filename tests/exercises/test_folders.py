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
from tests.exercises.support import WITHOUT_GPU, task

SEEDS = (0, 1)  # a mutant that one of them misses is caught by luck
# The tests of a part come one after another: whoever runs them answers its cases once.
EACH_PART = pytest.mark.parametrize("short", WITHOUT_GPU, scope="module")
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
def answered(short: str, seed: int) -> list[tuple[Any, Any, float]]:
    """The cases; to each the right answer, and how many seconds a mutant may take for one."""
    found = []
    for case in task(short).generated(np.random.default_rng(seed)):
        begin = time.process_time()
        right = task(short).expect(case)
        found.append((case, right, MUTANT_LIMIT_S + 10 * (time.process_time() - begin)))
    return found


def differs(
    names: dict[str, Any], short: str, seed: int, line: int, function: str, told: Counter[str]
) -> bool:
    """Whether some case tells these names from the solution's: a function's own are first, of them those that
    ``told`` most mutants before, then hard ones; those that they did not end are last.
    """
    hard = reversed(answered(short, seed))
    for case, right, limit_s in sorted(
        hard, key=lambda one: (one[0].function != function, -told[one[0].name])
    ):
        if not task(short).reaches({line}, case.function):
            continue
        try:
            with limited(limit_s):
                got = answer(names, case)
            if matches(right, got, case.relative):
                continue
        except TooSlowError:
            told[case.name] -= 2
        except Exception:
            pass
        told[case.name] += 1
        return True
    return False


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


def _alike(says: str, words: str) -> bool:
    """Whether words are what is said, but for the answers in it."""
    pieces = says.replace("{", "}").split("}")[::2]
    return bool(words) and all(piece in words for piece in pieces)


@EACH_PART
def test_no_mutant_survives_but_those_that_are_equivalent(short: str) -> None:
    found = task(short)
    survivors, told = [], Counter[str]()
    for name, source, line in mutants(found.source, found.part.file):
        try:
            names = namespace(source, found.solution)
        except Exception:
            continue
        if not all(differs(names, short, seed, line, name.partition(":")[0], told) for seed in SEEDS):
            survivors.append(name)
    listed = found.equivalent
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
