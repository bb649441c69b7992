"""Ways to have the Llama write tokens: a way in; a call that answers its requests out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.lm.llama import model as llama

if TYPE_CHECKING:
    import torch

ONE_PROMPT = 64  # tokens
LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256)  # new tokens of requests in proportion, over and over
SLOTS = 16  # requests that are answered at a time
BLOCK, SPARE = 256, 8  # tokens of a block of the cache; blocks beside those that are needed
BATCH_TOKENS = 2048  # most of a forward pass where requests join and leave
Answer = Callable[[], list[list[int]]]


@dataclass(frozen=True)
class Way:
    """How tokens are written: the cache of keys and values, whether the forward pass is compiled, whether
    there is one request, or many in batches of `SLOTS` that wait for their longest, or ones that join and
    leave; whether the latter are replayed as CUDA graphs.
    """

    cache: str = "dynamic"
    compiled: bool = False
    requests: str = "one"
    graphs: bool = False


WAYS = {
    "dynamic": Way(),
    "static": Way("static"),
    "graph": Way("static", compiled=True),
    "padded": Way(requests="padded"),
    "continuous": Way(requests="continuous"),
    "continuous-graph": Way(requests="continuous", graphs=True),
}


def lengths_of(way: Way, new_tokens: int, requests: int) -> list[int]:
    """New tokens that each request asks for."""
    if way.requests == "one":
        return [new_tokens]
    scale = new_tokens / max(LENGTHS)
    return [max(1, round(LENGTHS[k % len(LENGTHS)] * scale)) for k in range(requests)]


@contextmanager
def answering(way: Way, model: Any, lengths: Sequence[int], device: torch.device) -> Iterator[Answer]:
    """A call that writes the tokens of all requests, greedily; prompts are the same at each call."""
    import torch

    vocabulary = model.config.vocab_size
    draw = torch.Generator().manual_seed(llama.SEED)
    prompts = torch.randint(vocabulary, (len(lengths), ONE_PROMPT), generator=draw)
    if way.requests == "continuous":
        with _continuous(way, model, prompts.tolist(), lengths) as answer:
            yield answer
        return
    given = prompts.to(device)
    told: dict[str, Any] = {
        "do_sample": False,
        "cache_implementation": way.cache,
        "disable_compile": not way.compiled,
    }

    def written() -> list[list[int]]:
        texts: list[list[int]] = []
        for first in range(0, len(lengths), SLOTS):
            batch, asked = given[first : first + SLOTS], lengths[first : first + SLOTS]
            mask = torch.ones_like(batch)
            rows = model.generate(batch, attention_mask=mask, max_new_tokens=max(asked), **told)
            texts += [row[:count] for row, count in zip(rows[:, ONE_PROMPT:].tolist(), asked, strict=True)]
        return texts

    yield written


@contextmanager
def _continuous(way: Way, model: Any, prompts: list[list[int]], lengths: Sequence[int]) -> Iterator[Answer]:
    """By the manager of `transformers`, to which requests of different lengths are given."""
    transformers = llama.import_transformers()
    blocks = SLOTS * -(-(ONE_PROMPT + max(lengths)) // BLOCK)
    config = transformers.ContinuousBatchingConfig(
        use_cuda_graph=way.graphs,
        block_size=BLOCK,
        num_blocks=blocks + SPARE,
        max_batch_tokens=BATCH_TOKENS,
        max_requests_per_batch=SLOTS,
    )
    plain = transformers.GenerationConfig(do_sample=False, max_new_tokens=max(lengths), eos_token_id=-1)
    with model.continuous_batching_context_manager(
        generation_config=plain, continuous_batching_config=config, timeout=5
    ) as manager:

        def answer() -> list[list[int]]:
            names = [
                manager.add_request(prompt, max_new_tokens=length)
                for prompt, length in zip(prompts, lengths, strict=True)
            ]
            found: dict[str, list[int]] = {}
            while len(found) < len(names):
                result = manager.get_result(timeout=1)
                if result is not None and result.is_finished():
                    found[result.request_id] = list(result.generated_tokens)
                elif result is None and not manager.is_running():
                    raise LabError("the manager of continuous batching ended by itself")
            return [found[name] for name in names]

        yield answer
