"""What a web page folds: which claims it shows, and what the line above the others says."""

from docutils import nodes

from labcode.book.sphinx import folding
from labcode.book.sphinx.render import claim_box, claim_node
from labcode.store import RECORD


def box(key: str, *, bound: str = "at least 1", holds: bool = True, borrowed: bool = False) -> claim_box:
    claim = {"key": key, "text": key, "value": 1.0, "shown": "1", "bound": bound, "holds": holds}
    made = claim_node({"claim": {**claim, "host": False}, "borrowed": []})
    assert isinstance(made, claim_box)
    if borrowed:
        made["classes"] = ["lab-claim", "lab-claim-borrowed"]
    return made


def test_every_section_shows_its_first_claim_before_any_shows_its_second():
    assert folding.choose("aaabbc", most=3) == {0, 3, 5}
    assert folding.choose("aaabbc", most=4) == {0, 1, 3, 5}
    assert folding.choose("aaa") == {0, 1, 2}
    assert len(folding.choose("abcdefghijkl")) == folding.MOST_SHOWN


def test_the_line_says_how_many_hold():
    assert folding.summary([box("a"), box("b"), box("c")]) == ("3 checks, all hold", False)
    assert folding.summary([box("a")]) == ("1 check, it holds", False)
    assert folding.summary([box("a"), box("b", holds=False)]) == ("2 checks, 1 does not hold", True)
    mixed = [box("a", bound=RECORD), box("b", borrowed=True), box("c"), box("d")]
    assert folding.summary(mixed) == ("2 checks, both hold; 1 record; 1 measured on another GPU", False)
    assert folding.summary([box("a", bound=RECORD, holds=True)]) == ("1 record", False)


def test_claims_that_stand_together_are_folded_together():
    parent = nodes.container()
    a, b, c, d = (box(name) for name in "abcd")
    parent += [a, b, nodes.paragraph(text="between"), c, d]
    runs = [found for _, found in folding._runs([a, b, c, d], shown={id(d)})]
    assert runs == [[a, b], [c]]
    assert [found for _, found in folding._runs([a, b, c, d], shown={id(b)})] == [[a], [c, d]]
