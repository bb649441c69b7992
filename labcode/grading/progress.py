"""What a learner has done so far: ``.exercises-progress.json`` in and out, always whole."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from labcode.grading.records import Pace, Predicted

FILE_NAME = ".exercises-progress.json"


@dataclass(frozen=True)
class PartProgress:
    """One part of an exercise: passed at some time, how often it was graded, how many hints were shown.

    ``passed_sha256`` is the digest of the file that passed and of its exercise (empty while none has);
    ``headline`` is what was said of it; ``failed_sha256`` and ``failed_headline`` are those of what failed
    last. ``predictions`` are those of the first grading, and ``score`` is what they are worth: later ones
    know more.
    ``best`` is how many times as fast as its reference the fastest answer was that passed, ``best_text`` what
    was said of it.
    """

    passed: bool = False
    tries: int = 0
    hints: int = 0
    passed_sha256: str = ""
    headline: str = ""
    score: float | None = None
    best: float | None = None
    best_text: str = ""
    predictions: tuple[Predicted, ...] = ()
    failed_sha256: str = ""
    failed_headline: str = ""


Progress = Mapping[str, PartProgress]


class _Kept(msgspec.Struct):
    schema: Literal[1]
    parts: dict[str, PartProgress]


def load(root: Path) -> tuple[dict[str, PartProgress], str]:
    """The progress by part id, and one line for the learner (empty when all is well).

    A damaged file is moved aside and progress starts afresh: the line says where the damaged one went.
    """
    path = root / FILE_NAME
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        return kept.parts, ""
    except FileNotFoundError:
        return {}, ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        backup = path.with_name(FILE_NAME + ".bak")
        try:
            path.replace(backup)
        except OSError as error:
            return (
                {},
                f"{path.name} is damaged and cannot be moved aside ({error.strerror}); progress "
                f"starts afresh",
            )
        return {}, f"{path.name} was damaged: it is now {backup.name}, and progress starts afresh"
    except OSError as error:
        return {}, f"{path.name} cannot be read ({error.strerror}); progress is not kept"


def save(root: Path, progress: Progress) -> str:
    """Write the progress atomically; one line when it could not be written, empty otherwise."""
    path = root / FILE_NAME
    data = {"schema": 1, "parts": {key: asdict(value) for key, value in sorted(progress.items())}}
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=root, prefix=FILE_NAME + "-")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(data, out, indent=1)
            out.write("\n")
        temporary.replace(path)
    except OSError as error:
        return f"{path.name} cannot be written ({error.strerror}); progress is not kept"
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return ""


def graded(
    progress: Progress,
    part_id: str,
    passed: bool,
    sha256: str,
    headline: str = "",
    score: float | None = None,
    pace: Pace | None = None,
    predictions: tuple[Predicted, ...] = (),
    failed: bool = False,
) -> dict[str, PartProgress]:
    """The progress after grading a part once more; a ``pace`` counts that passed and is a personal best.

    What did not pass is to do still, or ``failed``.
    """
    before = progress.get(part_id, PartProgress())
    after = replace(before, tries=before.tries + 1)
    if before.score is None:
        after = replace(after, score=score, predictions=predictions)
    known = (sha256, headline) if failed else ("", "")
    after = replace(after, failed_sha256=known[0], failed_headline=known[1])
    if passed:
        after = replace(after, passed=True, passed_sha256=sha256, headline=headline)
        if pace is not None and (before.best is None or pace.times > before.best):
            after = replace(after, best=pace.times, best_text=str(pace))
    return {**progress, part_id: after}


def reopened(progress: Progress, part_id: str) -> dict[str, PartProgress]:
    """The progress after putting a part's starter back: it has not passed."""
    before = progress.get(part_id, PartProgress())
    return {**progress, part_id: replace(before, passed=False, passed_sha256="", headline="")}


def hinted(progress: Progress, part_id: str, hints: int) -> dict[str, PartProgress]:
    """The progress after showing ``hints`` hints in all."""
    return {**progress, part_id: replace(progress.get(part_id, PartProgress()), hints=hints)}
