"""Arguments that stay with the grader: what a learner's function asks of them in, the grader's answers out.

A machine that counts is worth nothing where a learner's code can reach its counts. So it works in the
grader's process; in the learner's there is an `Asked` in its place, whose methods send what they are given
and wait for what comes back. Weights, logits and caches travel as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from labcode.analysis.serving.pipeline import Cache, Logits

Answering = Callable[[str, Sequence[Any]], Mapping[str, Any]]
_answering: list[Answering] = []


@dataclass(frozen=True)
class Counting:
    """Stands among the arguments of a case for a machine; a learner's function gets an `Asked`.

    ``told`` gets what the function gave and the machine's counts, and gives what is compared.
    """

    told: Callable[[Any, dict[str, int]], Any]

    def __reduce__(self) -> tuple[type[Asked], tuple[()]]:
        return Asked, ()


@dataclass(frozen=True)
class Kept:
    """Something that the grader keeps, by its number."""

    number: int


class Asked:
    """A machine (`labcode.analysis.serving.pipeline.Machine`) whose work and counts are elsewhere."""

    def __init__(self) -> None:
        self._converted = Kept(0)
        self._caches: list[Any] = []  # kept, so that none takes another's place

    def tokenizer(self) -> str:
        """Load the tokenizer."""
        return str(_ask("tokenizer"))

    def weights(self) -> object:
        """Convert the weights."""
        _ask("weights")
        return self._converted

    def encode(self, tokenizer: str, text: str) -> list[int]:
        """The tokens of a text."""
        return [tokenizer.index(letter) for letter in text]

    def write(self, tokenizer: str, tokens: Sequence[int]) -> str:
        """The text of tokens up to the end."""
        return str(_ask("write", str(tokenizer), [int(token) for token in tokens]))

    def forward(self, weights: object, new: Sequence[Sequence[int]], caches: Sequence[Any]) -> Kept:
        """One pass."""
        known: list[int | None] = []
        for cache in caches:
            if cache is not None and not any(cache is one for one in self._caches):
                self._caches.append(cache)
            known.append(next((n for n, one in enumerate(self._caches) if one is cache), None))
        rows = [[int(token) for token in tokens] for tokens in new]
        return Kept(_ask("forward", weights is self._converted, rows, known))

    def argmax(self, logits: Kept) -> list[int]:
        """The likeliest token of each sequence."""
        return list(_ask("argmax", logits.number))

    def download(self, logits: Kept) -> list[list[float]]:
        """All logits on the host."""
        return list(_ask("download", logits.number))

    def synchronize(self) -> None:
        """Wait for the GPU."""
        _ask("synchronize")


def _ask(what: str, *given: Any) -> Any:
    reply = _answering[-1](what, given)
    if "error" in reply:
        raise ValueError(reply["error"])
    return reply["value"]


def connect(tell: Callable[..., None], replies: BinaryIO) -> None:
    """From now on questions go out by ``tell``, and each answer is a line of ``replies``."""

    def answer(what: str, given: Sequence[Any]) -> Mapping[str, Any]:
        tell(event="ask", what=what, given=given)
        reply: dict[str, Any] = json.loads(replies.readline())
        return reply

    _answering[:] = [answer]


class Attendant:
    """The grader's side of one call: a machine that does what is asked, and counts."""

    def __init__(self) -> None:
        from labcode.analysis.serving.pipeline import Machine

        self.machine = Machine()
        self._weights: object = None
        self._caches: dict[int, Cache] = {}
        self._logits: list[Logits] = []

    @contextmanager
    def here(self) -> Iterator[None]:
        """What is asked in this process is answered at once."""
        _answering.append(self.reply)
        try:
            yield
        finally:
            _answering.remove(self.reply)

    def reply(self, what: str, given: Sequence[Any]) -> Mapping[str, Any]:
        """What comes back for a question; an error for one that makes no sense."""
        try:
            return {"value": self._answer(what, list(given))}
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            return {"error": str(error) or type(error).__name__}

    def _answer(self, what: str, given: list[Any]) -> Any:
        machine = self.machine
        match what, given:
            case "tokenizer", []:
                return machine.tokenizer()
            case "weights", []:
                self._weights = machine.weights()
                return None
            case "write", [str(tokenizer), list(tokens)]:
                return machine.write(tokenizer, tokens)
            case "forward", [bool(own), list(new), list(numbers)]:
                from labcode.analysis.serving.pipeline import Cache

                caches = [None if n is None else self._caches.setdefault(n, Cache()) for n in numbers]
                self._logits.append(machine.forward(self._weights if own else None, new, caches))
                return len(self._logits) - 1
            case "argmax", [int(number)]:
                return machine.argmax(self._logits[number])
            case "download", [int(number)]:
                return machine.download(self._logits[number])
            case "synchronize", []:
                machine.synchronize()
                return None
        raise ValueError(f"the machine cannot {what} so")


def counting(arguments: Sequence[Any]) -> Counting | None:
    """The machine among the arguments of a case, if there is one."""
    return next((one for one in arguments if isinstance(one, Counting)), None)
