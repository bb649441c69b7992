"""What clients ask and get: a prompt and how many tokens in; tokens with their times, or why not, out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["waiting", "running", "done", "cancelled", "unread", "refused", "failed"]
ENDED = ("done", "cancelled", "unread", "refused", "failed")


@dataclass(frozen=True)
class Request:
    """A prompt, how many tokens are wanted, when it arrives; and how its client behaves.

    ``leaves_after``: after so many tokens the client hangs up; ``reads``: after so many it stops reading,
    without a word.
    """

    number: int
    prompt: tuple[int, ...]
    most: int
    arrives_s: float = 0.0
    leaves_after: int | None = None
    reads: int | None = None


@dataclass
class Answer:
    """What became of a request; times are by the engine's clock."""

    request: Request
    state: State = "waiting"
    why: str = ""
    tokens: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    started_s: float | None = None
    ended_s: float | None = None

    def end(self, state: State, now: float, why: str = "") -> None:
        """It is over."""
        self.state, self.why, self.ended_s = state, why, now


def refusal(request: Request, context: int, vocabulary: int) -> str:
    """Why a request can not be served at all; empty where it can."""
    if not request.prompt:
        return "the prompt is empty: there is nothing to continue"
    if request.most < 1:
        return f"{request.most} tokens are asked for; ask for 1 or more"
    unknown = [token for token in request.prompt if not 0 <= token < vocabulary]
    if unknown:
        return f"unknown token {unknown[0]}: the vocabulary has tokens 0 to {vocabulary - 1}"
    if len(request.prompt) + request.most > context:
        return (
            f"prompt of {len(request.prompt)} tokens and {request.most} more do not fit into "
            f"the context of {context}"
        )
    return ""
