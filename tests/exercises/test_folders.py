"""What an exercise's folder promises: mistakes are told, mutants caught, solutions agree with the book."""

import functools
import os
import time
from typing import Any

import numpy as np
import pytest

from labcode.grading.cases import matches, plain
from labcode.grading.codec import pack, unpack
from labcode.grading.task import TooSlowError, answer, limited, namespace, temporary_files
from tests.exercises.mutants import mutants
from tests.exercises.support import CODE, task

SEEDS = (0, 1)
# seeds under which a mistake or a mutant is caught each time, or never: the rest is luck; at night twenty
MANY = int(os.environ.get("LABCODE_SEEDS", "2"))
# The tests of a part come one after another: whoever runs them answers its cases once.
EACH_PART = pytest.mark.parametrize("short", CODE, scope="module")
MUTANT_LIMIT_S = 0.1  # of the CPU, however busy the machine is, and ten times what the solution takes
MISTAKE_LIMIT_S = 5.0  # none is endless, and a collection of garbage falls into whatever case it likes


class Dropped:
    """Takes its time when it goes."""

    def __del__(self) -> None:
        begin = time.process_time()
        while time.process_time() < begin + 0.1:
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_endless_mutant_is_ended_even_if_the_first_call_is_swallowed() -> None:
    """An exception that is raised while an object goes is printed and forgotten."""
    begin = time.process_time()
    with pytest.raises(TooSlowError), limited(0.05):
        Dropped()
        while time.process_time() < begin + 20:
            pass
    assert time.process_time() < begin + 10


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


@functools.cache
def cheap_first(short: str) -> list[int]:
    """The places of a part's cases, those first that the solution is done with soonest."""
    return sorted(range(len(drawn(short, 0))), key=lambda place: right(short, 0, place)[1])


def places(short: str, seed: int, before: list[int]) -> list[int]:
    """In which order cases are tried: what told under the seeds before, then the cheap ones."""
    known = [place for place in cheap_first(short) if place not in before]
    count = len(drawn(short, seed))
    return [place for place in (*before, *known, *range(len(known) + len(before), count)) if place < count]


def differs(
    names: dict[str, Any], short: str, seed: int, line: int, function: str, before: list[int]
) -> bool | None:
    """Whether some case tells these names from the solution's; None where one was too slow.

    Those of the function that was changed are first. ``before`` gets the place of the one that told.
    """
    found = drawn(short, seed)
    for place in sorted(places(short, seed, before), key=lambda one: found[one].function != function):
        case = found[place]
        if not task(short).reaches({line}, case.function):
            continue
        expected, limit_s = right(short, seed, place)
        try:
            with limited(limit_s):
                got = answer(names, case)
            if matches(expected, got, case.relative):
                continue
        except TooSlowError:
            return None
        except Exception:
            pass
        before[:] = [place, *(one for one in before if one != place)]
        return True
    return False


@EACH_PART
def test_every_mistake_is_told(short: str) -> None:
    """On some case each of them is wrong, and what it says is what is told."""
    found = task(short)
    silent = []
    for number, mistake in enumerate(found.mistakes):
        told = set()
        for place in cheap_first(short):
            case, (expected, _) = drawn(short, 0)[place], right(short, 0, place)
            try:
                with limited(MISTAKE_LIMIT_S):
                    got = found.given(number, case)
            except TooSlowError:
                continue
            if not isinstance(got, Exception) and not matches(expected, got, case.relative):
                told.add(words := found.mistaken(case, got))
                if _alike(mistake.says, words):
                    break
        else:
            silent.append((mistake.says, sorted(told)))
    assert silent == [], silent


@EACH_PART
def test_no_mistake_passes_by_luck(short: str) -> None:
    found, lucky = task(short), []
    for number, mistake in enumerate(found.mistakes):
        before = list[int]()
        for seed in range(MANY):
            wrong = (one for one in places(short, seed, before) if _wrong(short, seed, one, number))
            place = next(wrong, None)
            if place is None:
                lucky.append((mistake.says, seed))
            else:
                before[:] = [place, *(one for one in before if one != place)]
    assert lucky == []


def _wrong(short: str, seed: int, place: int, number: int) -> bool:
    """Whether a mistake gives a wrong answer to a case."""
    case = drawn(short, seed)[place]
    expected, _ = right(short, seed, place)
    try:
        with limited(MISTAKE_LIMIT_S):
            got = task(short).given(number, case)
    except TooSlowError:
        return True
    return isinstance(got, Exception) or not matches(expected, got, case.relative)


def _alike(says: str, words: str) -> bool:
    """Whether words are what is said, but for the answers in it."""
    pieces = says.replace("{", "}").split("}")[::2]
    return bool(words) and all(piece in words for piece in pieces)


@EACH_PART
def test_no_mutant_survives_but_those_that_are_equivalent(short: str) -> None:
    found = task(short)
    survivors, lucky = [], []
    for name, source, line in mutants(found.source, found.part.file):
        try:
            names = namespace(source, found.solution)
        except Exception:
            continue
        caught, endless, before = 0, 0, list[int]()
        # a reason says that no input tells the others: all cases are tried, of one seed, at night of two
        some = max(1, min(len(SEEDS), MANY - 1)) if name in found.equivalent else MANY
        for seed in range(some):
            different = differs(names, short, seed, line, name.partition(":")[0], before)
            caught += bool(different)
            endless += different is None
            if endless > 1:  # each would take all the time there is
                caught = some
                break
        caught += endless if caught and caught < some else 0  # one alone had to wait for the machine
        survivors += [name] if caught < some else []
        lucky += [(name, caught)] if 0 < caught < some else []
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
            with temporary_files():
                got = plain(others[case.function](*unpack(pack(case.arguments))))
            assert matches(right, got, case.relative), case.name


@EACH_PART
def test_hidden_inputs_are_drawn_anew_and_can_be_repeated(short: str) -> None:
    again = [case.arguments for case in task(short).generated(np.random.default_rng(0))]
    first, other = ([case.arguments for case, *_ in answered(short, seed)] for seed in SEEDS)
    assert [pack(arguments) for arguments in first] == [pack(arguments) for arguments in again]
    changed = [pack(a) != pack(b) for a, b in zip(first, other, strict=True)]
    assert sum(changed) >= len(changed) // 3, "an answer written down by hand must not pass"
