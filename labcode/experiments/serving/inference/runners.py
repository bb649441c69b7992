"""What computes a step: weights and slots in; next tokens out, on a GPU by graphs.

`Slots` keeps all sequences in one paged cache and computes them together; `Alone` is the plain loop that many
begin with: one sequence, a cache that is copied as it grows, operators launched one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from labcode.errors import LabError
from labcode.experiments.serving.inference.cache import TRASH, Fresh, Growing, Paged, Pool
from labcode.experiments.serving.inference.engine import NOT_A_NUMBER, NoMemoryError
from labcode.experiments.serving.inference.fused import Graph
from labcode.experiments.serving.inference.model import Weights, forward

PAGE = 16
SPLITS = 2
LEAST_PROMPT = 16  # prompts are filled up to this, twice this, …: a graph each


def choose(logits: Tensor) -> Tensor:
    """The likeliest token of each row [rows, vocabulary]; `NOT_A_NUMBER` where a logit is none."""
    chosen = logits.argmax(1)
    return torch.where(logits.isnan().any(1), torch.full_like(chosen, NOT_A_NUMBER), chosen)


def sample(logits: Tensor, temperature: float, generator: torch.Generator | None = None) -> Tensor:
    """Tokens drawn by their probabilities at a temperature, of [rows, vocabulary]; 0: the likeliest."""
    if temperature < 0:
        raise LabError(f"a temperature of {temperature} is below 0; 0 takes the likeliest token")
    if temperature == 0:
        return choose(logits)
    wrong = logits.isnan().any(1)
    shares = torch.softmax(logits.float().nan_to_num() / temperature, 1)
    drawn = torch.multinomial(shares, 1, generator=generator)[:, 0]
    return torch.where(wrong, torch.full_like(drawn, NOT_A_NUMBER), drawn)


def steps_up(least: int, most: int) -> list[int]:
    """least, twice least, … below most, and most."""
    found = []
    while least < most:
        found.append(least)
        least *= 2
    return [*found, most]


class KernelPaged(Paged):
    """`Paged` for one new token each, by the Triton kernel, which reads each sequence's own pages alone."""

    def __init__(self, pool: Pool, table: Tensor, lengths: Tensor, splits: int = SPLITS) -> None:
        from labcode.experiments.serving.inference import kernels

        super().__init__(pool, table, lengths)
        self.kernels, self.splits = kernels, splits
        heads, width = pool.keys.shape[2], pool.keys.shape[4]
        self.room = kernels.room_for(torch, len(table), heads, width, splits, table.device)

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """As `Cache.attend`."""
        heads = three[:, 0]
        out = torch.empty(len(heads), heads.shape[1] // 3, dtype=heads.dtype, device=heads.device)
        self.kernels.attend(
            *(heads, self.pool.keys[layer], self.pool.values[layer], self.table, self.lengths),
            *(self.room, out),
            splits=self.splits,
            early=0,
        )
        return out[:, None]


class Slots:
    """Sequences in one paged cache: ``slots`` of them, ``pages`` pages together.

    On a GPU a step of each number of rows (1, 2, 4, …) is a CUDA graph, as is a prompt of each length
    (16, 32, …); ``graphs=False`` launches the same operators one by one.
    """

    def __init__(
        self, weights: Weights, slots: int, pages: int, *, page: int = PAGE, graphs: bool = True
    ) -> None:
        if slots < 1:
            raise LabError(f"{slots} slots serve nobody; give 1 or more")
        self.weights, self.slots = weights, slots
        self.context, self.vocabulary = weights.longest, weights.size.vocabulary
        self.on_gpu, device = weights.device.type == "cuda", weights.device
        self.graphs = graphs and self.on_gpu
        self.pool = Pool(weights.size, pages + 1, page, device, weights.dtype)
        self.mine: dict[int, list[int]] = {}
        a_row = self.pool.need(self.context)
        self.table = torch.full((slots, a_row), TRASH, dtype=torch.int32, device=device)
        self.lengths = torch.zeros(slots, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(slots, 1, dtype=torch.int64, device=device)
        self.known = [0] * slots  # lengths, on the host
        self.row = torch.full((1, a_row), TRASH, dtype=torch.int32, device=device)
        self.none = torch.zeros(1, dtype=torch.int32, device=device)
        self.last = torch.zeros(1, dtype=torch.int64, device=device)
        self.prompt = torch.zeros(1, self.context, dtype=torch.int64, device=device)
        self.steps: dict[int, Callable[[], Tensor]] = {}
        self.prompts: dict[int, Callable[[], Tensor]] = {}

    def ready(self) -> None:
        """Make every graph, so that none is made while clients wait."""
        for rows in steps_up(1, self.slots):
            self.step_of(rows)
        for count in steps_up(LEAST_PROMPT, self.context):
            self._prompt(count)

    def ever(self, tokens: int) -> bool:
        """As `Runner.ever`."""
        return self.pool.need(tokens) < self.pool.pages

    def admit(self, slot: int, tokens: int) -> bool:
        """As `Runner.admit`."""
        pages = self.pool.take(self.pool.need(tokens))
        if pages is None:
            return False
        self.mine[slot] = pages
        self.table[slot, : len(pages)] = torch.tensor(pages, dtype=torch.int32, device=self.table.device)
        return True

    def first(self, slot: int, prompt: Sequence[int]) -> int:
        """As `Runner.first`."""
        count = next(n for n in steps_up(LEAST_PROMPT, self.context) if n >= len(prompt))
        self.prompt[0, : len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
        self.last.fill_(len(prompt) - 1)
        self.row.copy_(self.table[slot : slot + 1])
        self.known[slot] = len(prompt)
        self.lengths[slot] = len(prompt)
        with memory():
            return int(self._prompt(count)())

    def next(self, slots: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """As `Runner.next`."""
        most = max(slots) + 1
        rows = next(n for n in steps_up(1, self.slots) if n >= most)
        given = [0] * rows
        for slot, token in zip(slots, tokens, strict=True):
            given[slot] = token
        self.tokens[:rows, 0] = torch.tensor(given, dtype=torch.int64)
        with memory():
            chosen = self.step_of(rows)().tolist()
        for slot in slots:
            self.known[slot] += 1
        return [chosen[slot] for slot in slots]

    def release(self, slot: int) -> None:
        """As `Runner.release`."""
        self.pool.give_back(self.mine.pop(slot))
        self.table[slot] = TRASH
        self.lengths[slot] = 0
        self.known[slot] = 0

    def wipe(self, slot: int) -> None:
        """Take from a slot's pages what is no number: 0 times that is none either, behind every mask."""
        pages = self.mine[slot]
        self.pool.keys[:, pages] = 0
        self.pool.values[:, pages] = 0

    def step_of(self, rows: int) -> Callable[[], Tensor]:
        """A step of the first ``rows`` slots, on the device alone. Making its graph moves no sequence."""
        if rows not in self.steps:
            kind = KernelPaged if self.on_gpu else Paged
            cache = kind(self.pool, self.table[:rows], self.lengths[:rows])

            def call() -> Tensor:
                logits = forward(self.weights, self.tokens[:rows], cache)[:, 0]
                # rows without a sequence stay at their start
                cache.lengths += (cache.table[:, 0] != TRASH).to(torch.int32)
                return choose(logits)

            before = self.lengths.clone()
            self.steps[rows] = captured(call) if self.graphs else call
            self.lengths.copy_(before)
        return self.steps[rows]

    def _prompt(self, count: int) -> Callable[[], Tensor]:
        if count not in self.prompts:
            cache = Fresh(self.pool, self.row, self.none)

            def call() -> Tensor:
                return choose(forward(self.weights, self.prompt[:, :count], cache, self.last)[:, 0])

            self.prompts[count] = captured(call) if self.graphs else call
        return self.prompts[count]


class Alone:
    """One sequence at a time, operator by operator; every token's logits travel to the host."""

    slots = 1

    def __init__(self, weights: Weights) -> None:
        self.weights, self.context, self.vocabulary = weights, weights.longest, weights.size.vocabulary
        self.cache = Growing(weights.size, weights.device)

    def ever(self, tokens: int) -> bool:
        """As `Runner.ever`."""
        return True

    def admit(self, slot: int, tokens: int) -> bool:
        """As `Runner.admit`."""
        self.cache = Growing(self.weights.size, self.weights.device)
        return True

    def first(self, slot: int, prompt: Sequence[int]) -> int:
        """As `Runner.first`."""
        return self._take(list(prompt))

    def next(self, slots: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """As `Runner.next`."""
        return [self._take(list(tokens))]

    def release(self, slot: int) -> None:
        """As `Runner.release`."""

    def _take(self, tokens: list[int]) -> int:
        new = torch.tensor([tokens], device=self.weights.device)
        with memory():
            logits = forward(self.weights, new, self.cache)[:, -1]
        self.cache.advance(len(tokens))
        return int(choose(logits.float().cpu())[0])


def captured(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The call as a CUDA graph; its result lies where it always lies."""
    held: list[Tensor] = []

    def keep() -> None:
        held[:] = [call()]

    graph = Graph(keep)

    def replay() -> Tensor:
        graph.replay()
        return held[0]

    return replay


@contextmanager
def memory() -> Iterator[None]:
    """PyTorch's lack of memory is a `NoMemoryError` inside."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise NoMemoryError(str(error).splitlines()[0]) from None
