"""Exercises on a page: entries of the catalogue in, a card or the table of all of them out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docutils import nodes
from sphinx import addnodes

from labcode.book.sphinx.render import inline_nodes, plain_table
from labcode.grading.records import MAX_STARS, Exercise

_NEEDS = {"gpu": "a GPU", "2 gpus": "two GPUs", "nsys": "Nsight Systems", "ncu": "Nsight Compute"}


def exercise_card(exercise: Exercise) -> nodes.container:
    """Title, stars, time, needs, summary, parts and the command that grades it."""
    card = nodes.container(classes=["lab-exercise"])
    card["ids"].append(f"exercise-{exercise.id}")
    title = nodes.paragraph(classes=["lab-exercise-title"])
    title += nodes.strong(text=f"Exercise: {exercise.title}")
    card += title
    facts = nodes.paragraph(classes=["lab-exercise-facts"])
    stars = "★" * exercise.stars + "☆" * (MAX_STARS - exercise.stars)
    facts += nodes.inline(text=stars, classes=["lab-stars"])
    facts += nodes.Text(
        f" {exercise.stars} of {MAX_STARS} stars · about {exercise.minutes} minutes · {_needs(exercise)}"
    )
    card += facts
    summary = nodes.paragraph()
    summary.extend(inline_nodes(exercise.summary))
    card += summary
    parts = nodes.bullet_list()
    for part in exercise.parts:
        line = nodes.paragraph()
        line += nodes.strong(text=part.letter)
        line.extend(inline_nodes(f": {part.title}, in `exercises/{exercise.path(part)}`"))
        if part.needs:
            line += nodes.Text(f" (needs {_listed(part.needs)})")
        parts += nodes.list_item("", line)
    card += parts
    card += nodes.literal_block("", f"nox -s exercises -- {exercise.short}", language="shell")
    return card


def exercises_table(exercises: Sequence[Exercise], pages: Collection[str], page: str) -> nodes.Node:
    """All exercises, for ``page``, with links to those of their chapters that are among ``pages`` (document
    names).
    """
    rows: list[list[list[nodes.Node]]] = []
    for exercise in exercises:
        title: list[nodes.Node] = (
            [_to_chapter(exercise, page)] if exercise.chapter in pages else [nodes.Text(exercise.title)]
        )
        needs = _listed(exercise.needs) if exercise.needs else "–"
        rows.append([[nodes.literal(text=exercise.short)], title])
        rows[-1] += [[nodes.Text(fact)] for fact in ("★" * exercise.stars, str(exercise.minutes), needs)]
    return plain_table(("Exercise", "Title", "Stars", "Minutes", "Some parts need"), (2, 5, 2, 1, 3), rows)


def _to_chapter(exercise: Exercise, page: str) -> nodes.Node:
    target = f"/{exercise.chapter}"
    link = addnodes.pending_xref(
        "", reftype="doc", refdomain="std", reftarget=target, refexplicit=True, refwarn=True, refdoc=page
    )
    link += nodes.inline(text=exercise.title)
    return link


def _needs(exercise: Exercise) -> str:
    if not exercise.needs:
        return "needs no GPU"
    some = "some parts need" if exercise.needs_nothing else "needs"
    return f"{some} {_listed(exercise.needs)}"


def _listed(needs: Sequence[str]) -> str:
    words = [_NEEDS.get(need, need) for need in needs]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
