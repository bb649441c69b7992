"""A machine that counts: what a serving pipeline asks of it in; results, the counts, what is slow, out.

It stands for a GPU with a language model, small enough for a test: the next token follows from all tokens
before by arithmetic, so that any way to serve gives the same text. Each call is counted; costs are in µs of a
made-up GPU, in proportions that the book measures: reading all weights costs the same for one sequence and
for many, and what crosses to the host waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

END = 0
VOCABULARY = 128
CONTEXT = 64
COST_US = {
    "tokenizers": 400.0,
    "conversions": 900.0,
    "passes": 100.0,
    "positions": 1.0,
    "downloads": 0.2,
    "waits": 20.0,
    "letters": 2.0,
}
FLAWS = {
    "tokenizers": "the tokenizer is loaded anew (host)",
    "conversions": "weights are converted anew (memory)",
    "passes": "more passes than the longest text needs: sequences apart, or past an end (batching)",
    "positions": "positions are computed that need not be: no cache, or padding (arithmetic)",
    "downloads": "more than the chosen tokens travels to the host (transfer)",
    "waits": "the host waits more often than that many passes need (synchronization)",
    "letters": "letters are written more than once (host)",
}


@dataclass
class Cache:
    """The tokens that a sequence has had so far."""

    tokens: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Logits:
    """What a pass leaves on the GPU: the token that would follow each sequence."""

    likeliest: tuple[int, ...]


class Machine:
    """Counts what is asked of it: ``counts`` by the names of `COST_US`."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COST_US, 0)
        self._converted = object()

    def tokenizer(self) -> str:
        """Load the tokenizer: its alphabet."""
        self.counts["tokenizers"] += 1
        return "".join(chr(code) for code in range(VOCABULARY))

    def weights(self) -> object:
        """Convert the weights to the type that passes compute in."""
        self.counts["conversions"] += 1
        return self._converted

    def encode(self, tokenizer: str, text: str) -> list[int]:
        """The tokens of a text."""
        return [tokenizer.index(letter) for letter in text]

    def write(self, tokenizer: str, tokens: Sequence[int]) -> str:
        """The text of tokens up to the end."""
        self.counts["letters"] += len(tokens)
        return "".join(tokenizer[token] for token in tokens if token != END)

    def forward(
        self, weights: object, new: Sequence[Sequence[int]], caches: Sequence[Cache | None]
    ) -> Logits:
        """One pass: each sequence's new tokens behind its cache, which takes them in; all where it has none.

        `ValueError` for other weights, a sequence without tokens, or lists that do not go together.
        """
        if weights is not self._converted:
            raise ValueError("forward: give the weights that machine.weights() returned")
        if len(new) != len(caches) or not all(new):
            raise ValueError("forward: one list of new tokens, not empty, and one cache for each sequence")
        self.counts["passes"] += 1
        found = []
        for tokens, cache in zip(new, caches, strict=True):
            self.counts["positions"] += len(tokens)
            if cache is None:
                cache = Cache()
            cache.tokens += [token for token in tokens if token != END]
            found.append(_next(cache.tokens))
        return Logits(tuple(found))

    def argmax(self, logits: Logits) -> list[int]:
        """The likeliest token of each sequence, chosen on the GPU; the host waits for them."""
        self.counts["waits"] += 1
        self.counts["downloads"] += len(logits.likeliest)
        return list(logits.likeliest)

    def download(self, logits: Logits) -> list[list[float]]:
        """All logits on the host."""
        self.counts["waits"] += 1
        self.counts["downloads"] += VOCABULARY * len(logits.likeliest)
        return [[float(token == best) for token in range(VOCABULARY)] for best in logits.likeliest]

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.counts["waits"] += 1


def _next(tokens: Sequence[int]) -> int:
    """The token that follows: printable, or the end of about every ninth answer's tokens."""
    state = 7
    for token in tokens:
        state = (state * 31 + token + 1) % 10_007
    return END if state % 9 == 0 else 97 + state % 26


def needed(prompts: Sequence[str], most: Sequence[int]) -> dict[str, int]:
    """The counts that nobody can do without."""
    answers = []
    for prompt, limit in zip(prompts, most, strict=True):
        tokens = [ord(letter) for letter in prompt]
        length = 0
        while length < limit:
            token = _next(tokens)
            length += 1
            if token == END:
                break
            tokens.append(token)
        answers.append(length)
    some = int(bool(answers))
    return {
        "tokenizers": some,
        "conversions": some,
        "passes": max(answers, default=0),
        "positions": sum(map(len, prompts)) + sum(answers) - len(answers),
        "downloads": sum(answers),
        "waits": max(answers, default=0),
        "letters": sum(answers),
    }


def diagnosis(counts: dict[str, int], least: dict[str, int]) -> list[str]:
    """What is still slow: where more was counted than is needed, the costliest first."""
    over = {name: (counts[name] - least[name]) * COST_US[name] for name in FLAWS}
    ordered = sorted((name for name in over if over[name] > 0), key=lambda name: -over[name])
    return [FLAWS[name] for name in ordered]


def ladder(counts: dict[str, int], least: dict[str, int], width: int = 40) -> list[str]:
    """Lines of a drawing: what would remain, as the costliest excess is taken away, one after another."""
    left = dict(counts)
    total = sum(left[name] * COST_US[name] for name in left)
    lines = [f"{'as it is':<12} {'#' * width} {total:,.0f} µs"]
    over = sorted(FLAWS, key=lambda name: -(counts[name] - least[name]) * COST_US[name])
    for name in over:
        if left[name] <= least[name]:
            continue
        left[name] = least[name]
        now = sum(left[other] * COST_US[other] for other in left)
        bar = "#" * max(1, round(width * now / total))
        lines.append(f"{name:<12} {bar:<{width}} {now:,.0f} µs, {total / now:.1f} × as fast")
    return lines
