"""The machine of the slow pipeline: any way to serve says the same, and what is not needed is named."""

import pytest

from labcode.analysis.serving import pipeline
from labcode.analysis.serving.pipeline import Cache, Machine
from labcode.grading.catalogue import find


def test_with_a_cache_and_without_the_next_token_is_the_same() -> None:
    machine, cache, tokens = Machine(), Cache(), [104, 105, 33]
    weights = machine.weights()
    for place, token in enumerate(tokens):
        cached = machine.forward(weights, [[token]], [cache])
        assert cached == machine.forward(weights, [tokens[: place + 1]], [None])
    assert machine.counts["positions"] == 3 + (1 + 2 + 3) and machine.counts["passes"] == 6
    assert machine.download(cached)[0].index(1.0) == machine.argmax(cached)[0]
    assert machine.counts["downloads"] == pipeline.VOCABULARY + 1 and machine.counts["waits"] == 2


@pytest.mark.parametrize(("new", "caches"), [([[1], []], [None, None]), ([[1]], [])])
def test_sequences_that_do_not_go_together(new: list[list[int]], caches: list[None]) -> None:
    machine = Machine()
    with pytest.raises(ValueError, match=r"^forward: one list of new tokens, not empty, and one cache for"):
        machine.forward(machine.weights(), new, caches)
    with pytest.raises(ValueError, match=r"^forward: give the weights that machine\.weights\(\) returned$"):
        machine.forward("weights", [[1]], [None])


def test_what_is_needed_and_what_is_slow_by_hand() -> None:
    least = pipeline.needed(["ab"], [1])
    assert least == {
        "tokenizers": 1,
        "conversions": 1,
        "passes": 1,
        "positions": 2,
        "downloads": 1,
        "waits": 1,
        "letters": 1,
    }
    assert pipeline.diagnosis(least, least) == []
    counts = least | {"waits": 3, "conversions": 2}
    assert pipeline.diagnosis(counts, least) == [pipeline.FLAWS["conversions"], pipeline.FLAWS["waits"]]
    drawn = pipeline.ladder(counts, least)
    assert [line.split()[0] for line in drawn] == ["as", "conversions", "waits"]
    assert set(pipeline.needed([], []).values()) == {0}


def test_exercises_answer_to_the_names_of_older_guides() -> None:
    for name in ("ex_30_nsight_systems", "ex_34_end_to_end_optimization"):
        exercise, part = find(name)
        assert exercise.id.endswith(name.replace("ex_", "ex").replace("_", "-")) and part is None
