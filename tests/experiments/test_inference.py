"""Serving: every way gives the same tokens, no request is lost, and each bad one is told why."""

import contextlib
import dataclasses
import gc
import itertools
import json
import math
import random
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.analysis.lm.decoder import SIZES  # noqa: E402
from labcode.analysis.serving import queueing  # noqa: E402
from labcode.errors import LabError  # noqa: E402
from labcode.experiments.lm.transformer.model import Decoder  # noqa: E402
from labcode.experiments.serving.inference import (  # noqa: E402
    fused,
    load,
    model,
    program,
    quantize,
    runners,
    speculate,
    streamed,
    text,
    tokens,
)
from labcode.experiments.serving.inference.cache import Contiguous, Growing, Paged, Pool  # noqa: E402
from labcode.experiments.serving.inference.engine import NOT_A_NUMBER, Clock, Engine, NoMemoryError  # noqa: E402
from labcode.experiments.serving.inference.fused import folded  # noqa: E402
from labcode.experiments.serving.inference.requests import Answer, Request  # noqa: E402
from labcode.experiments.serving.inference.runners import Alone, Slots, choose, sample  # noqa: E402
from labcode.experiments.serving.inference.verifier import Verifier  # noqa: E402

CPU = torch.device("cpu")
TINY = SIZES["tiny"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def decoder() -> Any:
    torch.manual_seed(0)
    made = Decoder(TINY, 64)
    for parameter in made.parameters():
        parameter.data.mul_(8 if parameter.dim() > 1 else 1)  # so that choices are far apart
    return made


@pytest.fixture(scope="module")
def weights(decoder: Any) -> model.Weights:
    return model.weights_of(decoder, torch.float32)


def asked(count: int = 8) -> list[Request]:
    drawn = random.Random(1)
    return [
        Request(n, tuple(drawn.randrange(64) for _ in range(drawn.randint(1, 20))), drawn.randint(1, 12))
        for n in range(count)
    ]


def served(runner: Any, requests: Sequence[Request], **options: Any) -> list[Answer]:
    return Engine(runner, Clock(), **{"batch": runner.slots} | options).serve(requests).answers


def caches(size: Any) -> dict[str, Any]:
    scattered = torch.tensor([[7, 2, 5, 1], [3, 8, 6, 4]], dtype=torch.int32)
    lengths = torch.zeros(2, dtype=torch.int32)
    return {
        "growing": Growing(size, CPU),
        "contiguous": Contiguous(size, 2, 40, CPU, torch.float32),
        "paged": Paged(Pool(size, 9, 8, CPU, torch.float32), scattered, lengths),
    }


@pytest.mark.parametrize("kind", ["growing", "contiguous", "paged"])
def test_decoding_with_a_cache_is_the_whole_forward_pass(
    decoder: Any, weights: model.Weights, kind: str
) -> None:
    given = torch.randint(64, (2, 20), generator=torch.Generator().manual_seed(2))
    cache, found = caches(TINY)[kind], []
    for part in given.split([9, 1, 1, 5, 4], dim=1):
        found.append(model.forward(weights, part, cache))
        cache.advance(part.shape[1])
    assert torch.allclose(torch.cat(found, 1), decoder(given), atol=1e-5)
    last = model.forward(weights, given, caches(TINY)[kind], torch.tensor([3, 19]))
    assert torch.allclose(last[:, 0], decoder(given)[[0, 1], [3, 19]], atol=1e-5)


def test_together_as_one_by_one_in_every_way(weights: model.Weights) -> None:
    alone = [a.tokens for a in served(Alone(weights), asked())]
    assert [len(t) for t in alone] == [r.most for r in asked()]
    for runner, way in ((Slots(weights, 4, 16), "continuous"), (Slots(weights, 3, 5), "static")):
        answers = served(runner, asked(), way=way)
        assert [a.tokens for a in answers] == alone
        assert {a.state for a in answers} == {"done"}
        assert len(runner.pool.free) == runner.pool.pages - 1, "every page is given back"


def test_static_waits_for_the_longest_and_continuous_does_not(weights: model.Weights) -> None:
    requests = [Request(n, (1, 2), 9 if n == 0 else 2) for n in range(4)]
    steps = {}
    for way in ("static", "continuous"):
        found = Engine(Slots(weights, 2, 8), Clock(), batch=2, way=way).serve(requests)
        steps[way] = sum(len(times) for times in found.steps.values())
    assert steps == {"static": 9, "continuous": 8}


def test_a_full_cache_makes_requests_wait_and_loses_none(weights: model.Weights) -> None:
    runner = Slots(weights, 4, 2)
    engine = Engine(runner, Clock(), batch=4)
    found = engine.serve([Request(n, (1,) * 15, 10) for n in range(5)])
    assert [a.state for a in found.answers] == ["done"] * 5
    assert set(found.steps) == {1}, "two pages are one sequence"
    starts = [a.started_s for a in found.answers]
    assert starts == sorted(starts), "who came first is served first"


BAD = [
    ((), 1, "the prompt is empty: there is nothing to continue"),
    ((1,), 0, "0 tokens are asked for; ask for 1 or more"),
    ((1,) * 60, 5, "prompt of 60 tokens and 5 more do not fit into the context of 64"),
    ((1, 64), 1, "unknown token 64: the vocabulary has tokens 0 to 63"),
    ((1, -1), 1, "unknown token -1: the vocabulary has tokens 0 to 63"),
    ((1,) * 40, 5, "45 tokens do not fit into the whole cache"),
]


@pytest.mark.parametrize(("prompt", "most", "why"), BAD)
def test_a_request_that_cannot_be_served_is_refused_and_the_next_one_is_served(
    weights: model.Weights, prompt: tuple[int, ...], most: int, why: str
) -> None:
    bad, good = served(Slots(weights, 1, 2), [Request(0, prompt, most), Request(1, (1,), 2)])
    assert (bad.state, bad.why, bad.tokens) == ("refused", why, [])
    assert good.state == "done" and len(good.tokens) == 2


def test_batches_slots_and_caches_of_nothing(weights: model.Weights) -> None:
    with pytest.raises(LabError, match=r"^a batch of 0 serves nobody; give it 1 or more$"):
        Engine(Alone(weights), Clock(), batch=0)
    with pytest.raises(LabError, match=r"^a batch of 2 does not fit into the runner's 1 slots$"):
        Engine(Alone(weights), Clock(), batch=2)
    with pytest.raises(LabError, match=r"^0 slots serve nobody; give 1 or more$"):
        Slots(weights, 0, 4)
    with pytest.raises(LabError, match=r"^a cache of 1 pages holds nothing; give it 2 or more$"):
        Slots(weights, 1, 0)
    with pytest.raises(LabError, match=r"^two requests have the same number$"):
        served(Alone(weights), [Request(0, (1,), 1), Request(0, (1,), 1)])


def test_a_client_that_leaves_and_one_that_stops_reading_free_their_places(weights: model.Weights) -> None:
    runner = Slots(weights, 2, 8)
    requests = [Request(0, (1,), 30, leaves_after=3), Request(1, (2,), 30, reads=4), Request(2, (3,), 5)]
    left, unread, last = served(runner, requests, unread=6)
    assert (left.state, len(left.tokens), left.why) == ("cancelled", 3, "the client left after 3 tokens")
    assert (unread.state, len(unread.tokens)) == ("unread", 11)
    assert unread.why == "6 tokens wait for a client that has stopped reading"
    assert last.state == "done"
    assert len(runner.pool.free) == runner.pool.pages - 1


def test_logits_that_are_no_numbers_end_one_request_alone(weights: model.Weights) -> None:
    plain = served(Alone(weights), [Request(0, (1, 2), 4)])[0].tokens
    assert plain[2] not in (0, 1, 2, *plain[:2])
    embeddings = weights.tokens.clone()
    embeddings[plain[2]] = math.nan
    broken = dataclasses.replace(weights, tokens=embeddings)
    requests = [Request(0, (1, 2), 9), Request(1, (1, 2), 3), Request(2, (1, 2), 3)]
    long, short, reusing = served(Slots(broken, 1, 2), requests)
    assert (long.state, long.why) == ("failed", "the logits after 3 tokens are no numbers")
    assert short.tokens == reusing.tokens == plain[:3], "on pages that held no numbers"


class Small:
    """Memory for two sequences at most; the next token is the last one plus one."""

    slots, context, vocabulary = 8, 100, 100

    def __init__(self, most: int = 2) -> None:
        self.most, self.held = most, set[int]()

    def ever(self, tokens: int) -> bool:
        return True

    def admit(self, slot: int, tokens: int) -> bool:
        self.held.add(slot)
        return True

    def first(self, slot: int, prompt: Sequence[int]) -> int:
        return prompt[-1] + 1

    def next(self, slots: Sequence[int], tokens: Sequence[int]) -> list[int]:
        if len(slots) > self.most:
            raise NoMemoryError("CUDA out of memory")
        return [token + 1 for token in tokens]

    def release(self, slot: int) -> None:
        self.held.remove(slot)


def test_out_of_memory_halves_the_batch_says_so_and_loses_nothing() -> None:
    said: list[str] = []
    runner = Small()
    engine = Engine(runner, Clock(), batch=8, say=said.append)
    found = engine.serve([Request(n, (10 * n,), 4) for n in range(8)])
    assert [a.tokens for a in found.answers] == [[10 * n + k for k in (1, 2, 3, 4)] for n in range(8)]
    assert (
        said
        == found.log
        == [
            "out of memory with 8 sequences (CUDA out of memory): going on with 4",
            "out of memory with 4 sequences (CUDA out of memory): going on with 2",
        ]
    )
    assert engine.batch == 2 and not runner.held
    (only,) = Engine(Small(0), Clock(), batch=1).serve([Request(0, (1,), 4)]).answers
    assert (only.state, only.why) == ("failed", "out of memory (CUDA out of memory)")


def test_a_graph_that_is_made_while_others_run_moves_no_sequence(
    weights: model.Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(call: Any) -> Any:
        call()  # as making a graph does
        return call

    monkeypatch.setattr(runners, "captured", made)
    runner = Slots(weights, 4, 16)
    runner.graphs = True
    alone = [a.tokens for a in served(Alone(weights), asked())]
    assert [a.tokens for a in served(runner, asked())] == alone


def test_a_graph_keeps_what_its_kernels_read(weights: model.Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Paged]] = []

    class Watched(Paged):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(runners, "Paged", Watched)
    monkeypatch.setattr(fused, "recorded", lambda call: call() and None)
    runner = Slots(weights, 2, 8)
    runner.graphs = True
    runner.step_of(2)
    gc.collect()
    assert [cache() is not None for cache in made] == [True], "its table of places is still read"


class Ticking(Clock):
    """A clock that goes on by a tenth of a millisecond when it is read, and jumps where one waits."""

    def __init__(self) -> None:
        self.start = 0.0

    def now(self) -> float:
        self.start += 1e-4
        return self.start

    def wait_until(self, then: float) -> float:
        self.start = max(self.start, then)
        return self.start


def test_requests_that_come_later_wait_for_their_time(weights: model.Weights) -> None:
    requests = [Request(0, (1,), 2), Request(1, (1,), 2, arrives_s=0.05)]
    found = Engine(Alone(weights), Ticking(), batch=1).serve(requests)
    assert (found.answers[1].started_s or 0) >= 0.05
    held = sum((a.ended_s or 0) - a.request.arrives_s for a in found.answers)
    assert found.held_s == pytest.approx(held, abs=5e-4)


def test_a_load_is_served_in_rounds_and_can_be_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "Clock", lambda *, asleep: Ticking())
    for name, lengths in (("PROMPTS", (4, 24)), ("SHORT", (2, 4)), ("LONG", (8, 12))):
        monkeypatch.setattr(load, name, lengths)
    file, grad = tmp_path / "r.json", torch.is_grad_enabled()
    words = "--variant load --context 64 --batch 2 --load-seconds 0.02 --most 4 --rounds 2 --size tiny"
    try:
        assert program.main([*words.split(), "--device", "cpu", "--json", str(file)]) == 0
    finally:
        torch.set_grad_enabled(grad)
    results = json.loads(file.read_text())["results"]
    runs, full = results["runs"], results["runs"]["cache full"]
    assert full["done"] == full["requests"] and results["same_answers"] == results["compared_answers"]
    assert full["steps"] and len(full["first_us"]) == full["requests"]
    assert len(results["calibration"]) == 2 and "warm" not in runs
    for column in ("prompt_tokens", "tokens"):  # both ways to batch, and what is served in part, got the same
        same = runs["static all"][column]
        assert len(same) > full["requests"] and runs["continuous all"][column] == same
        assert runs["graph all"][column] == full[column] == same[: full["requests"]]
    for name, run in runs.items():
        rounds = 1 if name.split()[0] in ("graph", "static", "cache") or name == "continuous all" else 2
        assert len(run["parts"]) == rounds and sum(part["done"] for part in run["parts"]) == run["done"]
    found = queueing.predictions(results).set_index("run")
    assert list(found.index) == [f"alone {n}" for n in (0.5, 0.7)] + [
        f"continuous {n}" for n in (0.3, 0.5, 0.7, 0.9)
    ]
    # by their own service times; between two requests this coarse clock ticks, too
    assert found["own_ratio"][:2].between(0.8, 1.0).all()
    assert found["own_ratio"][2:].between(0.5, 1.5).all()


def test_lengths_are_spread_evenly_in_the_shares_of_the_load() -> None:
    made = load.even(20, 3, 64)
    assert sum(load.LONG[0] <= one.most <= load.LONG[1] for one in made) == 4
    assert sum(load.SHORT[0] <= one.most <= load.SHORT[1] for one in made) == 16
    sizes = sorted(len(one.prompt) for one in made)
    gaps = {later - one for one, later in itertools.pairwise(sizes)}
    assert gaps <= {8, 9} and load.PROMPTS[0] <= sizes[0] <= sizes[-1] <= load.PROMPTS[1]
    assert {one.arrives_s for one in made} == {0.0} and made == load.even(20, 3, 64) != load.even(20, 4, 64)


def test_arrivals_are_seeded_at_the_rate_and_of_mixed_lengths() -> None:
    made = load.requests(4000, 200.0, 5, 64)
    assert made == load.requests(4000, 200.0, 5, 64) != load.requests(4000, 200.0, 6, 64)
    assert made[-1].arrives_s == pytest.approx(20.0, rel=0.06)
    gaps = [b.arrives_s - a.arrives_s for a, b in itertools.pairwise(made)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert spread == pytest.approx(mean, rel=0.1), "exponential"
    long = sum(r.most >= load.LONG[0] for r in made) / len(made)
    assert long == pytest.approx(load.LONG_SHARE, abs=0.03)
    assert {r.arrives_s for r in load.requests(3, 0.0, 1, 64)} == {0.0}
    with pytest.raises(LabError, match=r"^-1 requests a second; give 0 \(all at once\) or more$"):
        load.requests(3, -1, 1, 64)


def test_text_goes_there_and_back_and_unknown_tokens_are_shown() -> None:
    assert tokens.decode(tokens.encode("größer ≤ 4 µs")) == "größer ≤ 4 µs"
    assert tokens.decode([72, 105, 9999, tokens.END, 33]) == "Hi\ufffd"
    assert tokens.decode([0xC3, 72]) == "\ufffdH"


def test_choosing_and_drawing() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, math.nan, 1.0]])
    assert choose(logits).tolist() == [1, NOT_A_NUMBER]
    assert sample(logits, 0.0).tolist() == [1, NOT_A_NUMBER]
    drawn = sample(logits[:1].expand(3000, 3), 2.0, torch.Generator().manual_seed(1))
    wanted = torch.softmax(logits[0] / 2, 0)
    assert torch.allclose(torch.bincount(drawn, minlength=3) / 3000, wanted, atol=0.03)
    with pytest.raises(LabError, match=r"^a temperature of -1 is below 0; 0 takes the likeliest token$"):
        sample(logits, -1)


@pytest.mark.parametrize(("kind", "least", "most"), [("int8", 1e-3, 2e-2), ("fp8", 1e-2, 5e-2)])
def test_eight_bits_cost_what_they_should(kind: str, least: float, most: float) -> None:
    torch.manual_seed(1)
    weight = torch.randn(16, 256)
    weight[3] = 0
    kept = quantize.KINDS[kind](weight)
    assert kept.values.element_size() == 1 and kept.shape == weight.shape
    assert least < quantize.error(weight, kind) < most
    assert kept.whole(torch.float32)[3].abs().max() == 0
    assert kept.whole(torch.float32).abs().amax(1) == pytest.approx(weight.abs().amax(1), rel=1e-3)


def test_a_normalization_folds_into_the_product_behind_it() -> None:
    torch.manual_seed(2)
    weight, gain, shift, x = torch.randn(6, 8), torch.rand(8) + 0.5, torch.randn(8), torch.randn(8)
    new, sums, added = folded(weight, (gain, shift))
    mean, inverse = x.mean(), (x.var(unbiased=False) + 1e-5).rsqrt()
    found = inverse * (new @ x - mean * sums) + added
    assert torch.allclose(found, weight @ model.normalized(x, (gain, shift)), atol=1e-5)
    with pytest.raises(LabError, match=r"^the gain of a normalization goes into the weight before it is qu"):
        folded(quantize.int8(weight), (gain, shift))


def test_read_bytes_by_hand() -> None:
    weights = model.random_weights(TINY, 16, CPU, torch.float32)
    matrices = 2 * (4 * 32 * 32 + 2 * 32 * 128) + 64 * 32
    vectors = (2 + 4 * 2 + 2) * 32
    assert model.read_bytes(weights, 10) == 4 * (matrices + vectors + 2 * 2 * 32 * 10)
    small = model.with_products(weights, quantize.int8)
    scales = 2 * (96 + 32 + 128 + 32) + 64
    assert model.read_bytes(small, 0) == matrices + 4 * scales + 4 * vectors


@pytest.mark.parametrize("count", [0, 1, 3])
def test_guesses_change_no_token(weights: model.Weights, count: int) -> None:
    prompt = [3, 1, 4, 1, 5]
    verifier = Verifier(weights, 64, 4)
    plain = served(Alone(weights), [Request(0, tuple(prompt), 24)])[0].tokens
    whole = [*prompt, *plain]
    right = speculate.Table(whole, order=3).guess

    def wrong(so_far: Sequence[int], most: int) -> list[int]:
        return [(token + 1) % 64 for token in right(so_far, most)]

    for guess in (right, wrong):
        told = speculate.speculate(verifier.verify, verifier.prompt(prompt), prompt, 24, guess, count)
        assert told.tokens == plain
        assert all(kept <= guessed <= count for kept, guessed in zip(told.kept, told.guessed, strict=True))
    assert sum(told.kept) == 0
    with pytest.raises(LabError, match=r"^-1 tokens to guess; give 0 or more$"):
        speculate.speculate(verifier.verify, 1, prompt, 4, right, -1)


def test_training_on_text_lowers_what_a_byte_costs(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r": 0 pages to learn from; 10 or more are needed$"):
        text.corpus(tmp_path)
    for number in range(10):
        (tmp_path / f"{number}.md").write_text("abcd" * 40 + "\n")
    pages = text.corpus(tmp_path)
    assert len(pages.train) == 9 * 162 and len(pages.held_out) == 162
    size = type(TINY)(32, 64, 1, 4, tokens.KNOWN)
    with torch.enable_grad():
        trained, losses = text.train(size, 16, pages.train, 25, 8, CPU)
    assert losses[-1] < losses[0] - 0.3
    bits, chosen = text.bits_a_byte(model.weights_of(trained, torch.float32), pages.held_out, 16)
    assert bits < 8 and chosen.shape == (10, 16)


@pytest.mark.parametrize(
    "words",
    [
        ("ladder", "--context", "8", "--seconds", "0.01"),
        ("slow", "--context", "8", "--tokens", "2"),
    ],
)
def test_the_program_leaves_a_record(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "r.json"
    grad = torch.is_grad_enabled()
    try:
        assert (
            program.main(["--variant", *words, "--size", "tiny", "--device", "cpu", "--json", str(file)]) == 0
        )
    finally:
        torch.set_grad_enabled(grad)
    results = json.loads(file.read_text())["results"]
    if words[0] == "ladder":
        assert results["rungs"]["static"]["error"] < 1e-5 and not results["left_out"]
        assert results["windows"]["growing"]["tokens"] > 0
    else:
        assert len(results["token_ms"]) == 2


def test_weights_that_one_kernel_a_token_cannot_take() -> None:
    fits = model.random_weights(type(TINY)(512, 2048, 2, 4, 300), 16, CPU)
    assert streamed.unfit(fits, 16) == ""
    assert streamed.unfit(fits, 15) == "16 parts of heads need as many SMs, not 15"
    narrow = dataclasses.replace(fits, size=dataclasses.replace(fits.size, vocabulary=320 * 16 + 1))
    assert streamed.unfit(narrow, 16) == "16 SMs are too few for matrices of so many rows"
    for odd in (
        dataclasses.replace(fits.size, d_model=4608, d_ff=18432, heads=36),
        dataclasses.replace(fits.size, layers=1),
    ):
        refused = dataclasses.replace(fits, size=odd)
        assert streamed.unfit(refused, 16).startswith("it takes an even number of heads, at most 32")
    tiny = model.random_weights(TINY, 16, CPU)
    assert streamed.unfit(tiny, 16).startswith("vectors must be multiples of 512, four times that inside")
    for kind in (
        model.random_weights(TINY, 16, CPU, torch.float32),
        model.with_products(tiny, quantize.int8),
    ):
        assert streamed.unfit(kind, 16) == "its weights are bf16"


def test_one_kernel_a_token_is_launched_cooperatively_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []
    fits = 1
    kernel = SimpleNamespace(kernel=SimpleNamespace(ptr=7))

    def module(**options: object) -> SimpleNamespace:
        made.append(options)
        return SimpleNamespace(get_function=lambda name: kernel)

    def occupancy(address: int, threads: int, shared_bytes: int) -> int:
        assert (address, threads, shared_bytes) == (7, streamed.THREADS, 1000)
        return fits

    driver = SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=occupancy)
    cuda = SimpleNamespace(driver=driver, Device=lambda index: contextlib.nullcontext())
    cupy = SimpleNamespace(RawModule=module, cuda=cuda)
    monkeypatch.setattr(streamed, "this_gpu", lambda device: SimpleNamespace(compute_capability=90))
    monkeypatch.setattr(streamed, "compile_cubin", lambda *_: (Path("decode.cubin"), {"token": "_token"}))
    assert streamed.cooperative(cupy, "token", 1000, 0).max_dynamic_shared_size_bytes == 1000
    assert made == [{"path": "decode.cubin", "enable_cooperative_groups": True}]
    fits = 0
    with pytest.raises(LabError, match="an SM has no room for a block of 288 threads and 1,000 bytes"):
        streamed.cooperative(cupy, "token", 1000, 0)


def test_the_kernels_need_a_gpu() -> None:
    with pytest.raises(LabError, match=r"^the kernels need a GPU; --variant slow runs without$"):
        program.main(["--variant", "fast", "--size", "tiny", "--device", "cpu"])
