"""Predictions, of exercises and of pages: what is kept, or a file, in; a file of one form, or lines, out.

The page of one's own predictions (``book/_static/predict.js``) writes and reads the same form:

.. code-block:: text

    {"kind": "labcode-predictions", "schema": 1, "predictions": [{"id": …, …}]}

where each prediction has the members of `Prediction`.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from labcode import outputs
from labcode.errors import LabError
from labcode.grading.progress import Progress
from labcode.grading.records import Exercise
from labcode.inputs import plain_file

KIND, SCHEMA = "labcode-predictions", 1
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Prediction:
    """One prediction with what was measured.

    ``id`` is ``PAGE#key`` of a question of a page, ``EXERCISE:part#key`` of one of an exercise; ``page`` is
    where it belongs. ``predicted`` is a number in ``unit``, a choice, or an interval of two numbers. Pages
    ask how sure one is (``sure_percent``), exercises score intervals (``score``, from 0 to 1).
    """

    id: str
    page: str
    title: str
    question: str
    predicted: float | str | list[float]
    sure_percent: float | None
    at: str
    measured: float | str
    unit: str
    machine: str
    right: bool
    predicted_by_measured: float | None
    score: float | None

    @property
    def of_exercise(self) -> bool:
        """Whether an exercise asked."""
        return isinstance(self.predicted, list)


def of_exercises(done: Progress, exercises: Sequence[Exercise]) -> list[Prediction]:
    """The predictions that are kept of exercises, each that of its first grading."""
    return [
        Prediction(
            id=f"{exercise.part_id(part)}#{one.key}",
            page=exercise.chapter,
            title=f"{exercise.short}{part.letter} {exercise.title}",
            question=one.asks,
            predicted=[one.low, one.high],
            sure_percent=None,
            at=one.at,
            measured=one.measured,
            unit=one.unit,
            machine="",
            right=one.right,
            predicted_by_measured=None,
            score=one.score,
        )
        for exercise in exercises
        for part in exercise.parts
        if exercise.part_id(part) in done
        for one in done[exercise.part_id(part)].predictions
    ]


def write(file: Path, predictions: Sequence[Prediction]) -> None:
    """Write a file that the page of one's own predictions imports."""
    data = {"kind": KIND, "schema": SCHEMA, "predictions": [asdict(one) for one in predictions]}
    with outputs.whole(file) as part:
        part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(file: Path) -> list[Prediction]:
    """The predictions of a file; `LabError` says what is wrong with it."""
    try:
        data = json.loads(plain_file(file, most_bytes=_MOST_BYTES).read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise LabError(f"{file}: not a JSON file") from None
    listed = data.get("predictions") if isinstance(data, dict) and data.get("kind") == KIND else None
    if not isinstance(listed, list):
        ways = "`labcode exercises --export`, or “Export as JSON” on the page of your predictions"
        raise LabError(f"{file}: no file of predictions; {ways} writes one")
    if data.get("schema") != SCHEMA:
        raise LabError(f"{file}: schema {data.get('schema')!r}, and this lab reads {SCHEMA}")
    return [_prediction(file, place, one) for place, one in enumerate(listed, start=1)]


def lines(predictions: Sequence[Prediction]) -> Iterator[str]:
    """What there is to say of predictions: all of them together, then a line each."""
    of = sum(one.of_exercise for one in predictions)
    said = [f"{len(predictions)} predictions ({of} of exercises, {len(predictions) - of} of pages)"]
    said += [f"{sum(one.right for one in predictions)} right"]
    scores = [one.score for one in predictions if one.score is not None]
    sure = [one for one in predictions if one.sure_percent is not None]
    if scores:
        said += [f"intervals score {sum(scores) / len(scores):.2f} of 1 on average"]
    if sure:
        mean = sum(one.sure_percent or 0.0 for one in sure) / len(sure)
        met = 100 * sum(one.right for one in sure) / len(sure)
        said += [f"where you said how sure you are, {mean:.0f} % on average, {met:.0f} % are right"]
    yield "; ".join(said)
    for one in predictions:
        yield f"{'✔' if one.right else '✘'} {one.title}: {one.question}: {_outcome(one)}"


def _outcome(one: Prediction) -> str:
    where = f" ({one.machine})" if one.machine else ""
    if isinstance(one.predicted, list):
        given = " to ".join(_number(value, "") for value in one.predicted)
        told = f"{given}{_unit(one.unit)}, measured {_number(one.measured, one.unit)}{where}"
    else:
        told = f"{_number(one.predicted, one.unit)}, measured {_number(one.measured, one.unit)}{where}"
    told += "" if one.sure_percent is None else f", {one.sure_percent:g} % sure"
    return told + ("" if one.score is None else f", score {one.score:.2f}")


def _number(value: float | str, unit: str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}{_unit(unit)}"


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # which no NaN is


def _is_interval(value: Any) -> bool:
    two = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    return bool(two and value[0] <= value[1])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_value(value: Any) -> bool:
    return _is_number(value) or _is_text(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


_FITS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "predicted": (lambda v: _is_value(v) or _is_interval(v), "a number, a text or two numbers in order"),
    "sure_percent": (_is_number_or_none, "a number or null"),
    "measured": (_is_value, "a number or a text"),
    "right": (lambda v: isinstance(v, bool), "true or false"),
    "predicted_by_measured": (_is_number_or_none, "a number or null"),
    "score": (_is_number_or_none, "a number or null"),
}


def _prediction(file: Path, place: int, given: Any) -> Prediction:
    where = f"{file}: prediction {place}"
    if not isinstance(given, dict):
        raise LabError(f"{where}: should be a JSON object")
    names = [one.name for one in fields(Prediction)]
    for name in names:
        if name not in given:
            raise LabError(f"{where}: {name} is missing")
        fits, words = _FITS.get(name, (_is_text, "a text"))
        if not fits(given[name]):
            raise LabError(f"{where}: {name} should be {words}")
    return Prediction(**{name: given[name] for name in names})
