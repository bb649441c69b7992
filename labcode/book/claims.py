"""Claims: a sentence, a measured value and a bound in, a checked statement out; and the file that records
them.

A page says ``book.claim("the pinned copy is at least twice as fast", ratio, at_least=2, unit="×")``. On the
shipped set the build fails when the bound does not hold; on another GPU the page prints that it does not.
`captures/<set>/claims.json` keeps every claim's value, and pages show those of the other sets beside their
own; `labcode.store` reads it.
"""

import json
import math
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from labcode.book import display
from labcode.book.pages import borrowed
from labcode.book.values import format_value, is_number
from labcode.outputs import whole
from labcode.show import html
from labcode.store import RECORD, Claim

_SCHEMA = 1
_KEY_LENGTH = 60


def claim(
    text: str,
    value: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    unit: str = "",
    fmt: str = ".2f",
    key: str | None = None,
    host: bool = False,
    of: str | None = None,
    record: bool = False,
) -> None:
    """State what a capture shows, with the value that shows it and the bound it must keep.

    The page prints the sentence, the measured value and the bound. ``value`` is a number, with at least one
    of ``at_least`` and ``at_most`` (both included), or a truth value without bounds. ``fmt`` and ``unit`` are
    as in `labcode.book.values.format_value`. Every claim has a key, by default made from its text; give one
    when two claims of a page would read alike, or to keep the history of a claim whose sentence changes.
    ``host=True`` says that the value depends on the host (its CPU, its disk, its link to the GPU), so that
    another machine with the same GPU may not keep the bound. ``of`` names the experiments that the value
    comes from, where `labcode.book.lineage` reads more of them from the cells. NaN never holds.

    ``record=True`` says that no argument of the page gives a bound: a number is stated as measured,
    and shown so.
    """
    checked = check(
        text, value, at_least=at_least, at_most=at_most, unit=unit, fmt=fmt, key=key, host=host, record=record
    )
    content = {"claim": asdict(checked), "borrowed": borrowed(sys._getframe(1), of)}
    display.show(
        {display.CLAIM_MIME: content, "text/html": _as_html(checked), "text/plain": as_line(checked)}
    )


def check(
    text: str,
    value: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    unit: str = "",
    fmt: str = ".2f",
    key: str | None = None,
    host: bool = False,
    record: bool = False,
) -> Claim:
    """`claim` without showing it; ``ValueError`` for one that could not fail: a number without a bound that
    is not said to be a record.
    """
    truth = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if record and (truth or at_least is not None or at_most is not None):
        raise ValueError(f"claim {text!r}: a record is a number without at_least= and at_most=")
    if not record and truth != (at_least is None and at_most is None):
        raise ValueError(
            f"claim {text!r}: give a number with at_least= or at_most=, or a truth value without either"
        )
    number = float(value) if is_number(value) else None
    holds = number is not None and (bool(value) if truth else True)
    holds = holds and (at_least is None or (number is not None and number >= at_least))
    holds = holds and (at_most is None or (number is not None and number <= at_most))
    return Claim(
        key=slug(key or text),
        text=text,
        value=number,
        shown=format_value(value, fmt if holds else _apart(number, (at_least, at_most), fmt), unit),
        bound=RECORD if record else _bound(at_least, at_most, fmt, unit),
        holds=holds,
        host=host,
    )


def slug(text: str) -> str:
    """A key of lower-case words joined by hyphens, cut at a word after 60 characters."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words: list[str] = re.findall(r"[a-z0-9]+", plain)
    if not words:
        raise ValueError(f"claim {text!r}: no letters to make a key of, give key=")
    kept = words[0]
    for word in words[1:]:
        if len(kept) + 1 + len(word) > _KEY_LENGTH:
            break
        kept += "-" + word
    return kept


def as_line(claim: Claim) -> str:
    """A claim as one line of text."""
    bound = f" ({claim.bound})" if claim.bound else ""
    verdict = "does not hold" if not claim.holds else "recorded" if claim.bound == RECORD else "holds"
    return f"{verdict}: {claim.text}: {claim.shown}{bound}"


def write_claims(path: Path, set_name: str, claims: Mapping[str, Claim]) -> None:
    """Record claims by ``page#key``, in alphabetical order, so that two versions of the file compare line by
    line.
    """
    entries = {key: asdict(claims[key]) for key in sorted(claims)}
    for entry in entries.values():
        entry["value"] = _rounded(entry["value"])
        if not entry["host"]:
            del entry["host"]
    data = {"schema": _SCHEMA, "set": set_name, "claims": entries}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def differences(recorded: Mapping[str, Claim], found: Mapping[str, Claim]) -> list[str]:
    """What differs between the recorded claims and those of a build: one line per claim."""
    lines = [f"{key}: recorded, but no longer on the page" for key in sorted(set(recorded) - set(found))]
    lines += [f"{key}: on the page, but not recorded" for key in sorted(set(found) - set(recorded))]
    for key in sorted(set(found) & set(recorded)):
        before, now = recorded[key], found[key]
        for field in ("text", "shown", "bound", "holds", "host"):
            if getattr(before, field) != getattr(now, field):
                lines.append(f"{key}: {field} was “{getattr(before, field)}”, is “{getattr(now, field)}”")
    return lines


def _bound(at_least: float | None, at_most: float | None, fmt: str, unit: str) -> str:
    parts = [
        f"{word} {_fraction(fmt, bound, unit) or format_value(bound, _tidy(fmt, bound), unit)}"
        for word, bound in (("at least", at_least), ("at most", at_most))
        if bound is not None
    ]
    return " and ".join(parts)


def _fraction(fmt: str, bound: float, unit: str) -> str | None:
    """A bound such as 1/3, which no digits say, as a fraction; ``None`` for one that digits say."""
    if not math.isfinite(bound) or _tidy(fmt, bound) == fmt:
        return None
    simple = Fraction(bound).limit_denominator(12)
    if abs(float(simple) - bound) > 1e-12:
        return None
    decimal = simple.denominator
    for prime in (2, 5):
        while decimal % prime == 0:
            decimal //= prime
    return None if decimal == 1 else f"{simple} {unit}".strip()


def _tidy(fmt: str, bound: float) -> str:
    """A format for a bound: as given, unless it would hide digits of the bound."""
    if fmt.endswith("d"):
        return fmt if float(bound).is_integer() else ".6g"
    shown = format(float(bound), fmt).replace(",", "")
    scale = 100.0 if fmt.endswith("%") else 1.0
    if abs(float(shown.rstrip("%")) - float(bound) * scale) <= 1e-9 * max(1.0, abs(bound) * scale):
        return fmt
    return ".6g" if not fmt.endswith("%") else ".3%"


def _apart(value: float | None, bounds: tuple[float | None, ...], fmt: str) -> str:
    """A format with as many digits more, up to three, as a value needs that misses a bound narrowly."""
    found = re.fullmatch(r"(,?)\.(\d)([f%])", fmt)
    for _ in range(3):
        if (
            value is None
            or not found
            or format(value, fmt) not in [format(b, fmt) for b in bounds if b is not None]
        ):
            break
        fmt = f"{found[1]}.{int(found[2]) + 1}{found[3]}"
        found = re.fullmatch(r"(,?)\.(\d)([f%])", fmt)
    return fmt


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _as_html(claim: Claim) -> str:
    bound = f" <small>({html(claim.bound)})</small>" if claim.bound else ""
    return f"<p><b>{claim.mark}</b> {html(claim.text)}: <b>{html(claim.shown)}</b>{bound}</p>"
