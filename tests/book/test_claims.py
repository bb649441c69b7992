import json

import numpy as np
import pytest

from labcode import book, store
from labcode.book import claims
from labcode.errors import InputError


def test_a_claim_holds_at_its_bounds_and_fails_beyond_them():
    assert claims.check("fast", 2.0, at_least=2).holds
    assert claims.check("fast", 2.0, at_most=2).holds
    assert claims.check("fast", 2.0, at_least=1, at_most=3).holds
    assert not claims.check("fast", 1.999, at_least=2).holds
    assert not claims.check("fast", 2.001, at_most=2).holds
    assert not claims.check("fast", 4.0, at_least=1, at_most=3).holds


@pytest.mark.parametrize("value", [float("nan"), np.float64("nan"), None])
def test_an_undefined_value_never_holds(value):
    for bounds in ({"at_least": 0.0}, {"at_most": 1e9}, {"at_least": float("-inf"), "at_most": float("inf")}):
        checked = claims.check("fast", value, **bounds)
        assert not checked.holds
        assert checked.value is None
        assert checked.shown == "undefined"


def test_a_truth_value_is_claimed_without_bounds():
    assert claims.check("the results agree", np.bool_(True)).holds
    assert not claims.check("the results agree", False).holds


@pytest.mark.parametrize("arguments", [{"value": 3.0}, {"value": True, "at_least": 1}])
def test_a_claim_that_says_nothing_is_refused(arguments):
    with pytest.raises(
        ValueError, match="give a number with at_least= or at_most=, or a truth value without either"
    ):
        claims.check("fast", **arguments)


def test_a_record_is_a_number_without_a_bound():
    found = claims.check("the copy takes", 3.25, unit="ms", record=True)
    assert (found.holds, found.bound, found.shown, found.mark) == (True, store.RECORD, "3.25\u202fms", "•")
    assert claims.as_line(found) == "recorded: the copy takes: 3.25\u202fms (a record)"
    assert not claims.check("the copy takes", float("nan"), record=True).holds
    assert [claims.check("x", value, at_most=2).mark for value in (1, 3)] == ["✓", "✗"]
    for arguments in ({"value": 1.0, "at_least": 0.5}, {"value": True}):
        with pytest.raises(ValueError, match="a record is a number without at_least= and at_most="):
            claims.check("the copy takes", **arguments, record=True)


def test_value_and_bound_are_printed_alike():
    checked = claims.check("most is hidden", 0.734, at_least=0.7, fmt=".0%")
    assert (checked.shown, checked.bound) == ("73%", "at least 70%")
    assert (
        claims.check("near the roof", 0.9, at_least=0.85, at_most=1, fmt=".1f").bound
        == "at least 0.85 and at most 1.0"
    )
    assert claims.check("few", 3, at_most=2.5, fmt="d").bound == "at most 2.5"
    assert claims.check("little", 0.01, at_most=0.125, fmt=".0%").bound == "at most 12.500%"


def test_a_narrow_miss_is_not_printed_as_its_bound():
    assert claims.check("a", 1.99705, at_least=2.0, unit="×").shown == "1.997×"
    assert claims.check("a", 0.1004, at_most=0.1, fmt=".0%").shown == "10.04%"
    assert (
        claims.check("a", 1.9, at_least=2.0).shown == "1.90"
        and claims.check("a", 2.001, at_least=2.0).shown == "2.00"
    )
    assert claims.check("a", 2 - 1e-9, at_least=2.0).shown == "2.00000"


def test_keys_come_from_the_sentence_unless_one_is_given():
    assert claims.slug("The `graph` wins, by far: 2× — naïvely") == "the-graph-wins-by-far-2-naively"
    assert claims.check("a sentence", True, key="My key").key == "my-key"
    long = claims.slug("a claim of very many words " * 9)
    assert len(long) <= 60
    assert not long.endswith("-")
    with pytest.raises(ValueError, match="no letters to make a key of"):
        claims.slug("…")


def test_a_claim_outside_a_notebook_prints_one_line(capsys):
    book.claim("the copy is fast", 0.62, at_least=0.85)
    assert capsys.readouterr().out == "does not hold: the copy is fast: 0.62 (at least 0.85)\n"


def test_recorded_claims_come_back_and_compare(tmp_path):
    path = tmp_path / "claims.json"
    found = {
        "a/page#fast": claims.check("fast", 1 / 3, at_least=0.1),
        "a/page#same": claims.check("same", True),
    }
    claims.write_claims(path, "h200", found)
    assert path.read_text(encoding="utf-8").count("0.333333") == 1  # six digits: the same on every machine
    recorded = store.read_claims(path)
    assert claims.differences(recorded, found) == []

    changed = {"a/page#fast": claims.check("fast", 0.5, at_least=0.1), "b#new": claims.check("new", True)}
    assert claims.differences(recorded, changed) == [
        "a/page#same: recorded, but no longer on the page",
        "b#new: on the page, but not recorded",
        "a/page#fast: shown was “0.33”, is “0.50”",
    ]


def test_an_absent_record_is_empty_and_a_damaged_one_is_refused(tmp_path):
    assert store.read_claims(tmp_path / "claims.json") == {}
    path = tmp_path / "claims.json"
    for content in ("{", "[]", json.dumps({"claims": {"a": {"key": "a"}}})):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=r"claims\.json: damaged; write it again with .*--update-claims"):
            store.read_claims(path)


def test_a_bound_that_no_digits_say_is_a_fraction():
    def bound(at_most, fmt, unit=""):
        return claims.check("a share", 0.2, at_most=at_most, fmt=fmt, unit=unit).bound

    assert bound(1 / 3, ".0%") == "at most 1/3" and bound(4 / 3, ".2f", "×") == "at most 4/3 ×"
    assert bound(0.125, ".0%") == "at most 12.500%" and bound(0.3, ".0%") == "at most 30%"
