"""What of the book can run on this machine: catalogues and pages in, what each is missing here out."""

from __future__ import annotations

import re
from typing import Any

from labcode.capture.catalogue import EXPERIMENTS, needs_of
from labcode.hardware.needs import unmet
from labcode.store import repository_root

_USES = re.compile(r"book\.(?:capture|record)\(\s*[\"'](\w+)[\"']")


def can_run() -> dict[str, dict[str, Any]]:
    """What is missing here for every experiment, exercise and chapter, a line each; empty: it can run.

    A chapter can always be read and built on a set that ships; listed is what measuring it again would take.
    """
    experiments = {name: unmet(needs_of(experiment)) for name, experiment in EXPERIMENTS.items()}
    return {"experiments": experiments, "exercises": _exercises(), "chapters": _chapters(experiments)}


def _exercises() -> dict[str, dict[str, list[str]]]:
    from labcode.exercises.catalogue import EXERCISES

    return {
        exercise.id: {part.letter: unmet(part.needs) for part in exercise.parts} for exercise in EXERCISES
    }


def _chapters(experiments: dict[str, list[str]]) -> dict[str, list[str]]:
    root = repository_root() / "book"
    chapters: dict[str, list[str]] = {}
    for page in sorted(root.rglob("*.md")):
        used = {name for name in _USES.findall(page.read_text(encoding="utf-8")) if name in experiments}
        if used:
            name = page.relative_to(root).with_suffix("").as_posix()
            chapters[name] = list(
                dict.fromkeys(reason for use in sorted(used) for reason in experiments[use])
            )
    return chapters
