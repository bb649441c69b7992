from docutils import nodes
from sphinx import addnodes

from labcode.book.sphinx.directives import exercise_card, exercises_table
from labcode.grading.records import Exercise, Part

HINTS = ("look", "look closer", "there")
EXERCISE = Exercise(
    id="nsys-ex09-waiting",
    title="Waiting",
    summary="Find out who waits in `loop.py`.",
    chapter="nsys/waiting",
    stars=2,
    minutes=45,
    parts=(
        Part("a", "Find the gap", "a_gap.py", HINTS),
        Part("b", "Close it", "b_close.py", HINTS, ("gpu", "torch")),
    ),
)


def test_a_card_says_what_to_do_and_what_it_takes():
    card = exercise_card(EXERCISE)
    text = card.astext()
    assert "Exercise: Waiting" in text
    assert "★★☆☆☆ 2 of 5 stars · about 45 minutes · some parts need a GPU and PyTorch" in text
    assert "a: Find the gap, in exercises/nsys/ex09_waiting/a_gap.py" in text
    assert "b: Close it, in exercises/nsys/ex09_waiting/b_close.py (needs a GPU and PyTorch)" in text
    assert next(iter(card.findall(nodes.literal_block))).astext() == "nox -s exercises -- nsys-ex09"
    assert card["ids"] == ["exercise-nsys-ex09-waiting"]


def test_an_exercise_without_needs_says_so():
    easy = Exercise("nsys-ex08-easy", "Easy", "A start.", "nsys/easy", 1, 10, EXERCISE.parts[:1])
    assert "needs no GPU" in exercise_card(easy).astext()


def test_the_table_links_the_chapters_that_exist():
    def links(pages: set[str]) -> list[tuple[str, str]]:
        found = exercises_table([EXERCISE], pages, "reference/exercises")
        return [(link["refdoc"], link["reftarget"]) for link in found.findall(addnodes.pending_xref)]

    assert links({"index", "nsys/waiting"}) == [("reference/exercises", "/nsys/waiting")]
    assert links({"index"}) == []
    (name,) = exercises_table([EXERCISE], set(), "index").findall(nodes.literal)
    assert name.astext() == "nsys-ex09" and name["classes"] == ["lab-exercise-name"]  # which does not break
