"""What of the book can run on this machine: catalogues and pages in, what each is missing here out."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from labcode.capture.catalogue import EXPERIMENTS, needs_of
from labcode.grading.catalogue import EXERCISES
from labcode.hardware.needs import unmet
from labcode.store import repository_root

_USES = re.compile(r"book\.(?:capture|launches|record)\(\s*[\"'](\w+)[\"']")


def can_run() -> dict[str, dict[str, Any]]:
    """What is missing here for every experiment, exercise and chapter.

    ``experiments``, ``exercises`` (by part) and ``chapters`` list the needs that are not met; empty: it can
    run. ``missing`` says of each such need why it is not met and what to do. A chapter can always be read
    and built on a set that ships; listed is what measuring it again would take.
    """
    exercises = {f"{e.id}:{part.letter}": part.needs for e in EXERCISES for part in e.parts}
    experiments = {name: needs_of(experiment) for name, experiment in EXPERIMENTS.items()}
    wanted: dict[str, Mapping[str, Iterable[str]]] = {
        "chapters": _chapters(experiments),
        "experiments": experiments,
        "exercises": exercises,
    }
    missing = unmet(
        sorted({need for things in wanted.values() for needs in things.values() for need in needs})
    )
    lists = {
        kind: {name: [need for need in missing if need in needs] for name, needs in things.items()}
        for kind, things in wanted.items()
    }
    return {**lists, "missing": missing}


def _chapters(experiments: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """What measuring the captures of each page takes; pages without captures are left out."""
    root = repository_root() / "book"
    chapters = {}
    for page in sorted(root.rglob("*.md")):
        used = {name for name in _USES.findall(page.read_text(encoding="utf-8")) if name in experiments}
        if used:
            name = page.relative_to(root).with_suffix("").as_posix()
            chapters[name] = tuple(dict.fromkeys(need for use in sorted(used) for need in experiments[use]))
    return chapters
