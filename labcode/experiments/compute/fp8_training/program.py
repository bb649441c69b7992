"""A decoder trained in bf16 and with 8-bit matmuls: recipes in; a record of losses and times of a step out.

The linear layers of the blocks multiply e4m3 by ``torch._scaled_mm``, forward and twice in the backward pass;
all else is the model in bf16 of ``labcode.workloads.transformer``. Tokens follow a table drawn at random, so
the least loss that any model can reach is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import event_times_us, spread

if TYPE_CHECKING:
    from torch import Tensor

PROGRAM = "fp8_training"
RECIPES = ("bf16", "tensor", "rows", "unscaled")
VARIANTS = ("all", *RECIPES)
LARGEST = 448.0  # of e4m3
LIKELY = (0.5, 0.25, 0.125, 0.125)  # of the tokens that may follow; the second two by the two tokens before
MOST_COMPILED = 64  # variants of the narrowing: by size, and by which way a matrix lies
SEEN_EVERY = 5  # steps between two losses of the record
WARM = 10  # steps whose times do not count


def command_line() -> Any:
    """The flags."""
    parser = common.parser(PROGRAM, "Trains a decoder in bf16 and with 8-bit matmuls.", VARIANTS)
    whole = common.whole
    parser.add_argument("--steps", type=whole(WARM + 1, 100000), default=200, help="a recipe (default 200)")
    parser.add_argument("--width", type=whole(32, 1 << 14), default=4096, help="of the model (default 4096)")
    parser.add_argument("--layers", type=whole(1, 256), default=2, help="blocks (default 2)")
    parser.add_argument("--heads", type=whole(1, 256), default=32, help="default 32")
    parser.add_argument("--context", type=whole(16, 1 << 14), default=1024, help="tokens (default 1024)")
    parser.add_argument("--batch", type=whole(1, 4096), default=8, help="sequences a step (default 8)")
    parser.add_argument("--vocabulary", type=whole(16, 1 << 16), default=64, help="default 64")
    parser.add_argument("--rate", type=common.positive, default=3e-4, help="of learning (default 3e-4)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


# ---- 8-bit products ---------------------------------------------------------------------------------------


def narrow(torch: Any, x: Tensor, recipe: str) -> tuple[Tensor, Tensor]:
    """A matrix as e4m3, and what its elements are to be multiplied by: one number, or one a row."""
    if recipe == "unscaled":
        scale = torch.ones((), device=x.device, dtype=torch.float32)
    else:
        largest = x.abs().amax(1, keepdim=True) if recipe == "rows" else x.abs().amax()
        scale = largest.float().clamp(min=1e-30) / LARGEST
    elements = (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return elements, scale


def products(torch: Any, recipe: str, compiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that multiplies A (m × k) by the transpose of B (n × k) in 8 bits, both narrowed first."""

    def lay_out(x: Tensor) -> tuple[Tensor, Tensor]:
        elements, scale = narrow(torch, x, recipe)
        return elements.contiguous(), scale

    if compiled:
        torch._dynamo.config.recompile_limit = MOST_COMPILED
    narrowed = torch.compile(lay_out, dynamic=True) if compiled else lay_out

    def product(a: Tensor, b: Tensor) -> Tensor:
        (left, of_left), (right, of_right) = narrowed(a.detach()), narrowed(b.detach())
        scales = (of_left, of_right.t()) if recipe == "rows" else (of_left, of_right)
        made: Tensor = torch._scaled_mm(left, right.t(), *scales, out_dtype=torch.bfloat16)
        return made

    return product


def linear_of(torch: Any, product: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """A linear layer without bias, all three of whose matmuls are in 8 bits."""

    class Product(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return product(x, weight)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            gradient = gradient.to(torch.bfloat16)
            of_x = product(gradient, weight.t())
            return of_x, product(gradient.t(), x.t())

    class Linear(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, weight: Any) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Tensor) -> Tensor:
            rows = x.flatten(0, -2).to(torch.bfloat16)
            made: Tensor = Product.apply(rows, self.weight.to(torch.bfloat16))
            return made.unflatten(0, x.shape[:-1])

    return Linear


def narrow_layers(torch: Any, model: Any, recipe: str, compiled: bool) -> int:
    """Make the linear layers of a model's blocks 8-bit; how many those are."""
    linear = linear_of(torch, products(torch, recipe, compiled))
    count = 0
    for block in model.blocks:
        for owner in (block, block.attention):
            for name, layer in list(owner.named_children()):
                if isinstance(layer, torch.nn.Linear):
                    setattr(owner, name, linear(layer.weight))
                    count += 1
    return count


# ---- tokens -----------------------------------------------------------------------------------------------


def table_of(torch: Any, vocabulary: int, seed: int, device: Any) -> Tensor:
    """[vocabulary, vocabulary, 4]: which tokens may follow two others; half of them, whatever the first is.

    What the last token alone says is learned soon, the rest by attention and the layers behind it.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (vocabulary, vocabulary, len(LIKELY))
    table: Tensor = torch.randint(vocabulary, shape, generator=generator)
    table[:, :, : len(LIKELY) // 2] = table[:1, :, : len(LIKELY) // 2]
    return table.to(device)


def draw(torch: Any, table: Tensor, batch: int, length: int, seed: int) -> Tensor:
    """[batch, length] tokens that follow the table."""
    generator = torch.Generator(device=table.device).manual_seed(seed)
    likely = torch.tensor(LIKELY, device=table.device)
    chosen = torch.multinomial(likely, batch * length, replacement=True, generator=generator)
    chosen = chosen.view(length, batch)
    first = torch.randint(len(table), (2, batch), generator=generator, device=table.device)
    tokens = [first[0], first[1]]
    for step in range(2, length):
        tokens.append(table[tokens[-2], tokens[-1], chosen[step]])
    made: Tensor = torch.stack(tokens, 1)
    return made


def least_loss() -> float:
    """What a model that knows the table loses a token, in nats."""
    return -sum(p * math.log(p) for p in LIKELY)


# ---- training ---------------------------------------------------------------------------------------------


def train(torch: Any, given: Any, recipe: str, data: Tensor) -> dict[str, Any]:
    """Losses and times of one recipe; the same start, the same tokens for all."""
    from labcode.analysis.lm.decoder import Size
    from labcode.experiments.lm.transformer.model import Decoder, loss_of

    device = data.device
    torch.manual_seed(given.seed)
    size = Size(given.width, 4 * given.width, given.layers, given.heads, given.vocabulary)
    model = Decoder(size, given.context, attention="sdpa").to(device)
    layers = 0
    if recipe != "bf16":
        layers = narrow_layers(torch, model, recipe, device.type == "cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate, fused=device.type == "cuda")
    losses: list[tuple[int, Any]] = []
    times: list[tuple[Any, Any]] = []
    for number in range(given.steps):
        tokens = data[number % len(data)]
        begun = _now(torch, device)
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = loss_of(logits.float(), tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append((begun, _now(torch, device)))
        if number % SEEN_EVERY == 0 or number == given.steps - 1:
            losses.append((number, loss.detach()))
    common.synchronize(device)
    middle = spread([_between(one, other) for one, other in times[WARM:]])
    found: dict[str, Any] = {
        "recipe": recipe,
        "layers": layers,
        "steps": [number for number, _ in losses],
        "losses": common.rounded([float(loss) for _, loss in losses], 5),
        "step_ms": middle.median,
        "step_q1_ms": middle.q1,
        "step_q3_ms": middle.q3,
    }
    print(f"  {recipe:10} {middle.median:8.2f} ms a step, loss {found['losses'][-1]:.3f}", flush=True)
    return found


def _now(torch: Any, device: Any) -> Any:
    if device.type != "cuda":
        import time

        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(begun: Any, ended: Any) -> float:
    """Milliseconds."""
    if isinstance(begun, float):
        return 1e3 * (float(ended) - begun)
    return float(begun.elapsed_time(ended))


def parts(torch: Any, given: Any, device: Any) -> list[dict[str, Any]]:
    """Times of a block's matmuls alone: in bf16, in 8 bits with narrowing, in 8 bits of what is narrow."""
    tokens, width = given.batch * given.context, given.width
    rows = []
    for name, out, into in (
        ("projections", 3 * width, width),
        ("output", width, width),
        ("widen", 4 * width, width),
        ("narrow", width, 4 * width),
    ):
        x = torch.randn(tokens, into, device=device, dtype=torch.bfloat16)
        weight = torch.randn(out, into, device=device, dtype=torch.bfloat16)
        row: dict[str, Any] = {"layer": name, "m": tokens, "n": out, "k": into}
        row["bf16_us"] = _median_us(partial(torch.matmul, x, weight.t()))
        for recipe in ("tensor", "rows"):
            row[f"{recipe}_us"] = _median_us(partial(products(torch, recipe, True), x, weight))
            (left, of_left), (right, of_right) = narrow(torch, x, recipe), narrow(torch, weight, recipe)
            scales = (of_left, of_right.t()) if recipe == "rows" else (of_left, of_right)
            alone = partial(torch._scaled_mm, left, right.t(), *scales, out_dtype=torch.bfloat16)
            row[f"{recipe}_alone_us"] = _median_us(alone)
        rows.append(row)
        print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return rows


def _median_us(call: Callable[[], object]) -> float:
    return spread(event_times_us(call, 15, warmup=3)).median


def main(arguments: Sequence[str]) -> int:
    """Train by each recipe; 0 when every loss of the recipes with scales is a number."""
    given = command_line().parse_args(arguments)
    if given.width % 16 or given.width % given.heads or (given.batch * given.context) % 16:
        raise LabError(
            f"--width {given.width}, --heads {given.heads}, {given.batch} × {given.context} tokens: the "
            "width must be a multiple of 16 and of the heads, the tokens of a batch one of 16"
        )
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        if torch.cuda.get_device_capability() < (8, 9):
            raise LabError("8-bit matmuls need compute capability 8.9 or more, and this GPU has less")
    device = torch.device(given.device, 0) if given.device == "cuda" else torch.device("cpu")
    table = table_of(torch, given.vocabulary, given.seed, device)
    tokens = draw(torch, table, given.steps * given.batch, given.context + 1, given.seed + 1)
    data = tokens.view(given.steps, given.batch, given.context + 1)
    print(f"{given.steps} steps of {given.batch} × {given.context} tokens; least loss {least_loss():.3f}")
    chosen = RECIPES if given.variant == "all" else (given.variant,)
    runs = [train(torch, given, recipe, data) for recipe in chosen]
    results: dict[str, Any] = {"runs": runs, "least_loss": least_loss()}
    if given.variant == "all" and device.type == "cuda":
        results["parts"] = parts(torch, given, device)
    checks = {
        f"{run['recipe']} learns": Check(
            run["losses"][-1] < run["losses"][0],
            f"loss from {run['losses'][0]:.3f} to {run['losses'][-1]:.3f}",
        )
        for run in runs
        if run["recipe"] != "unscaled"
    }
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
