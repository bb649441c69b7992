"""The engine: requests in their order of arrival in; which run in each step, and what became of all, out.

Two ways of batching. ``static`` takes a batch and serves it to its end before it takes the next;
``continuous`` fills every place as soon as it is free. What computes is a `Runner`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from labcode.errors import LabError
from labcode.experiments.serving.inference.requests import Answer, Request, State, refusal

Way = Literal["continuous", "static"]
NOT_A_NUMBER = -1  # in place of a token: the logits held no numbers
UNREAD = 64  # tokens that wait for a client at most


class NoMemoryError(Exception):
    """The GPU has no memory left for what a step wants."""


class Runner(Protocol):
    """What computes: sequences have slots."""

    slots: int
    context: int
    vocabulary: int

    def ever(self, tokens: int) -> bool:
        """Whether a sequence of so many tokens would fit into the empty cache."""

    def admit(self, slot: int, tokens: int) -> bool:
        """Reserve a slot's cache for so many tokens; false where it is full."""

    def first(self, slot: int, prompt: Sequence[int]) -> int:
        """Take in a prompt; the next token."""

    def next(self, slots: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """One step for the newest tokens of sequences; the token after each."""

    def release(self, slot: int) -> None:
        """Give a slot's cache back."""


@runtime_checkable
class Wipes(Protocol):
    """A runner whose caches outlive a sequence."""

    def wipe(self, slot: int) -> None:
        """Take out of a slot's cache what is no number."""


class Clock:
    """Seconds since it was made; waiting takes them, awake or asleep.

    Who sleeps wakes on whatever core is free, which may be slow for a while: a server that has a core to
    itself waits awake.
    """

    def __init__(self, *, asleep: bool = False) -> None:
        self.start, self.asleep = time.perf_counter(), asleep

    def now(self) -> float:
        """The time."""
        return time.perf_counter() - self.start

    def wait_until(self, then: float) -> float:
        """Wait, the last bit awake in any case; the time after it."""
        while (left := then - self.now()) > 0:
            if self.asleep:
                time.sleep(max(0.0, left - 2e-4))
        return self.now()


@dataclass
class Served:
    """What became of the requests, in their order, and what was seen on the way.

    ``held_s``: requests in the system (waiting or running), as counted before each step, times seconds;
    ``steps``: seconds of the decoding steps of each batch; ``prefill_s``: tokens and seconds of each prompt.
    """

    answers: list[Answer]
    held_s: float = 0.0
    span_s: float = 0.0
    steps: dict[int, list[float]] = field(default_factory=dict)
    prefill_s: list[tuple[int, float]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


class Engine:
    """Serves requests with a runner, up to ``batch`` at a time."""

    def __init__(
        self,
        runner: Runner,
        clock: Clock,
        *,
        batch: int,
        way: Way = "continuous",
        unread: int = UNREAD,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        if batch < 1:
            raise LabError(f"a batch of {batch} serves nobody; give it 1 or more")
        if batch > runner.slots:
            raise LabError(f"a batch of {batch} does not fit into the runner's {runner.slots} slots")
        self.runner, self.clock, self.batch, self.way = runner, clock, batch, way
        self.unread, self.say = unread, say
        self.waiting: deque[Answer] = deque()
        self.running: dict[int, Answer] = {}

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serve all requests; ends when each has its end."""
        ordered = sorted(requests, key=lambda r: (r.arrives_s, r.number))
        answers = {request.number: Answer(request) for request in ordered}
        if len(answers) < len(ordered):
            raise LabError("two requests have the same number")
        self.served = Served([answers[request.number] for request in requests])
        coming = deque(answers[request.number] for request in ordered)
        began = before = self.clock.now()
        while coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                before = self.clock.wait_until(coming[0].request.arrives_s)
            while coming and coming[0].request.arrives_s <= self.clock.now():
                self._receive(coming.popleft(), self.clock.now())
            held = len(self.waiting) + len(self.running)
            self._admit()
            self._step()
            now = self.clock.now()
            self.served.held_s += held * (now - before)
            before = now
        self.served.span_s = self.clock.now() - began
        return self.served

    def _receive(self, answer: Answer, now: float) -> None:
        request = answer.request
        why = refusal(request, self.runner.context, self.runner.vocabulary)
        if not why and not self.runner.ever(len(request.prompt) + request.most):
            why = f"{len(request.prompt) + request.most} tokens do not fit into the whole cache"
        if why:
            answer.end("refused", now, why)
        else:
            self.waiting.append(answer)

    def _admit(self) -> None:
        if self.way == "static" and self.running:
            return
        while self.waiting and len(self.running) < self.batch:
            answer = self.waiting[0]
            slot = next(s for s in range(self.runner.slots) if s not in self.running)
            whole = len(answer.request.prompt) + answer.request.most
            if not self.runner.admit(slot, whole):
                return  # the cache is full: who came first waits first
            self.waiting.popleft()
            self.running[slot] = answer
            began = self.clock.now()
            if answer.started_s is None:
                answer.started_s = began
            answer.state = "running"
            prompt = (*answer.request.prompt, *answer.tokens)
            try:
                token = self.runner.first(slot, prompt)
            except NoMemoryError as error:
                self._shrink(error)
                return
            now = self.clock.now()
            self.served.prefill_s.append((len(prompt), now - began))
            self._take(slot, token, now)

    def _step(self) -> None:
        if not self.running:
            return
        slots = sorted(self.running)
        began = self.clock.now()
        try:
            tokens = self.runner.next(slots, [self.running[slot].tokens[-1] for slot in slots])
        except NoMemoryError as error:
            self._shrink(error)
            return
        now = self.clock.now()
        self.served.steps.setdefault(len(slots), []).append(now - began)
        for slot, token in zip(slots, tokens, strict=True):
            self._take(slot, token, now)

    def _take(self, slot: int, token: int, now: float) -> None:
        """A sequence's next token: it goes to its client; the sequence may be over."""
        answer, request = self.running[slot], self.running[slot].request
        if token == NOT_A_NUMBER:
            if isinstance(self.runner, Wipes):
                self.runner.wipe(slot)
            self._end(slot, "failed", now, f"the logits after {len(answer.tokens)} tokens are no numbers")
            return
        answer.tokens.append(token)
        answer.times_s.append(now)
        count = len(answer.tokens)
        if count == request.most:
            self._end(slot, "done", now)
        elif request.leaves_after is not None and count >= request.leaves_after:
            self._end(slot, "cancelled", now, f"the client left after {count} tokens")
        elif request.reads is not None and count - request.reads > self.unread:
            self._end(slot, "unread", now, f"{self.unread} tokens wait for a client that has stopped reading")

    def _end(self, slot: int, state: State, now: float, why: str = "") -> None:
        self.running.pop(slot).end(state, now, why)
        self.runner.release(slot)

    def _shrink(self, error: NoMemoryError) -> None:
        """Out of memory: half of the sequences go back to wait, the last that came first; none is lost."""
        found, now = len(self.running), self.clock.now()
        ordered = sorted(self.running, key=lambda s: (self.running[s].started_s or 0.0, s))
        if found == 1:
            self._log(f"out of memory with 1 sequence ({error}): it is given up")
            self._end(ordered[0], "failed", now, f"out of memory ({error})")
            return
        self.batch = max(1, found // 2)
        self._log(f"out of memory with {found} sequences ({error}): going on with {self.batch}")
        for slot in reversed(ordered[self.batch :]):
            answer = self.running.pop(slot)
            self.runner.release(slot)
            answer.state = "waiting"
            self.waiting.appendleft(answer)

    def _log(self, line: str) -> None:
        self.served.log.append(line)
        self.say(line)
