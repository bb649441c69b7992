"""Speculative decoding: a cheap guess of the next tokens in; those that the model would have said itself out.

The guess comes from a table: what followed the same few tokens in a known text, or in this one. One pass over
the guess gives the model's own choice behind each of its tokens; kept is what agrees, and one token more, the
model's own. With greedy choice the result is that of plain decoding, whatever the guesses are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from labcode.errors import LabError

ORDER = 6  # tokens that are looked up


class Table:
    """What followed each ``order`` tokens of a text, and of the sequence itself."""

    def __init__(self, text: Sequence[int], order: int = ORDER) -> None:
        self.text, self.order = list(text), order
        self.after = {tuple(self.text[end - order : end]): end for end in range(order, len(self.text))}

    def guess(self, so_far: Sequence[int], count: int) -> list[int]:
        """Up to ``count`` tokens that may follow; none where the last ones were never seen."""
        place = self.after.get(tuple(so_far[-self.order :]))
        return [] if place is None else self.text[place : place + count]


@dataclass
class Told:
    """Tokens, and for each pass over the model how many were guessed and how many of those kept."""

    tokens: list[int]
    guessed: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)


def speculate(
    verify: Callable[[list[int]], list[int]],
    first: int,
    prompt: Sequence[int],
    most: int,
    guess: Callable[[Sequence[int], int], list[int]],
    count: int,
) -> Told:
    """``most`` tokens behind a prompt, the first of them known.

    ``verify`` takes the newest token and guesses after it, and gives the model's choice after each; it keeps
    those in its cache that agree (``verifier.py``). ``count`` 0 guesses nothing.
    """
    if count < 0:
        raise LabError(f"{count} tokens to guess; give 0 or more")
    told = Told([first])
    so_far = [*prompt, first]
    while len(told.tokens) < most:
        guesses = guess(so_far, count) if count else []
        chosen = verify([so_far[-1], *guesses])
        agree = 0
        while agree < len(guesses) and guesses[agree] == chosen[agree]:
            agree += 1
        new = chosen[: agree + 1]
        told.guessed.append(len(guesses))
        told.kept.append(agree)
        told.tokens += new
        so_far += new
    told.tokens = told.tokens[:most]
    return told
