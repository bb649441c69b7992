"""Detective compute-ex49: what would you put into eight bits?

A Llama of 8.03 B parameters in bf16, of which a token reads 7.5 B; its cache has 128 KiB a token. Four
loads, on an H200 (4.8 TB/s, 989 TFLOP/s in bf16). Choose for speed what gains most; of two that
gain as much, the smaller change. captures/h200/fp8_bench/errors.json, results → rows, has errors: by
step, promoted, whole_row_error, for each kind of data and of scales; good enough is what loses at most
a tenth more than one scale loses on normal data. captures/h200/fp8_training/record.json has a
training step.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

_THINGS = ("weights", "cache", "weights and activations", "nothing")
_SCALES = ("one scale a matrix", "a scale a row", "a scale a block")

QUESTIONS = (
    Word("alone", "writing, one sequence of 1,000 tokens, launched as one CUDA graph", words=_THINGS),
    Word("many", "writing, 32 sequences of 16,384 tokens, launched as one CUDA graph", words=_THINGS),
    Word("prompt", "reading a prompt of 8,192 tokens", words=_THINGS),
    Word("eager", "writing, one sequence, a token takes 30 ms: 1,000 launches from Python", words=_THINGS),
    Number("gain", "the load of 32 sequences, if only bytes count: how many times as fast", within=0.02),
    Word(
        "tokens",
        "outliers of 100,000 fill whole rows of A (rows × 100,000): the coarsest scales that are good enough",
        words=_SCALES,
    ),
    Word(
        "channels",
        "outliers of 100,000 fill whole columns of A (columns × 100,000): the scales that lose least",
        words=_SCALES,
    ),
    Word("hundred", "outliers of 100 in columns: the coarsest scales that are good enough", words=_SCALES),
    Number("step", "a training step with a scale a row: how many times as fast as bf16", within=0.02),
)


def answers() -> Answers:
    """The right answers, by arithmetic and from the captures."""
    from labcode.grading import opened

    weights, token = 2 * 7.5e9, 128 * 1024
    many = 32 * 16384 * token
    things = {"weights": (0.5, 1), "cache": (1, 0.5), "nothing": (1, 1)}

    def best(cache: float) -> str:
        return min(things, key=lambda one: things[one][0] * weights + things[one][1] * cache)

    prompt = 2 * 7.5e9 * 8192 / 989e12, weights / 4.8e12
    errors = opened.record("h200", "fp8_bench", "errors")["results"]["rows"]
    kinds = dict(zip(("tensor", "row and column", "blocks of 128"), _SCALES, strict=True))

    def lost(data: str) -> dict[str, float]:
        return {
            kinds[one["scales"]]: one["whole_row_error"]
            for one in errors
            if (one["data"], one["by"], one["promoted"]) == (data, "step", True)
        }

    def enough(data: str) -> str:
        least = 1.1 * lost("normal")[_SCALES[0]]
        return next(kind for kind in _SCALES if lost(data)[kind] <= least)

    columns = lost("columns × 100,000")
    steps = {
        one["recipe"]: one["step_ms"]
        for one in opened.record("h200", "fp8_training", "record")["results"]["runs"]
    }
    gain = (weights + many) / (weights + many / 2)
    return Answers(
        {
            "alone": best(1000 * token),
            "many": best(many),
            "prompt": "weights and activations" if prompt[0] > prompt[1] else "weights",
            "eager": "nothing",
            "gain": gain,
            "tokens": enough("rows × 100,000"),
            "channels": min(columns, key=columns.__getitem__),
            "hundred": enough("columns × 100"),
            "step": steps["bf16"] / steps["rows"],
        },
        [
            Misreading(
                "the cache of 1,000 tokens has less than a hundredth of the weights' bytes",
                {"alone": "cache"},
            ),
            Misreading(
                "a token's activations are few bytes beside the weights: those alone are the smaller change",
                {"alone": "weights and activations"},
            ),
            Misreading("what a token reads can be halved, for the greater part", {"alone": "nothing"}),
            Misreading("the cache is several times the weights here: 128 KiB a token", {"many": "weights"}),
            Misreading(
                "neither is what a step reads most of: the cache is several times the weights",
                {"many": "weights and activations"},
            ),
            Misreading("what a token reads can be halved, for the greater part", {"many": "nothing"}),
            Misreading(
                "products decide: the tensor cores take 8 bits only if both operands have them",
                {"prompt": "weights"},
            ),
            Misreading("a prompt is bound by its products, not by what it reads", {"prompt": "cache"}),
            Misreading("its products gain up to a factor of two", {"prompt": "nothing"}),
            Misreading("the read is a tenth of that time: launches take the rest", {"eager": "weights"}),
            Misreading("reading is a small part of that time: launches take the rest", {"eager": "cache"}),
            Misreading(
                "the kernels are a small part of that time: launches take the rest",
                {"eager": "weights and activations"},
            ),
            Misreading("the weights are read, too, in two bytes as before", {"gain": 2.0}),
            Misreading(
                "that is with the weights in eight bits in place of the cache",
                {"gain": (weights + many) / (weights / 2 + many)},
            ),
            Misreading(
                f"its error is {lost('rows × 100,000')[_SCALES[0]]:.2f}, far above that on normal data",
                {"tokens": _SCALES[0]},
            ),
            Misreading(
                "blocks do it, too, but a scale a row is enough where a row is all outliers",
                {"tokens": _SCALES[2]},
            ),
            Misreading(f"its error is {columns[_SCALES[0]]:.2f}: others have less", {"channels": _SCALES[0]}),
            Misreading("every row has outliers: its scale follows them", {"channels": _SCALES[1]}),
            Misreading(
                "an exponent reaches over fifteen powers of two: a hundred costs nothing",
                {"hundred": _SCALES[1]},
            ),
            Misreading(
                "an exponent reaches over fifteen powers of two: a hundred costs nothing",
                {"hundred": _SCALES[2]},
            ),
            Misreading("that is with one scale a matrix", {"step": steps["bf16"] / steps["tensor"]}),
            Misreading(
                "that is without scales, and its loss ends above that of bf16",
                {"step": steps["bf16"] / steps["unscaled"]},
            ),
            Misreading("the other way round", {"step": steps["rows"] / steps["bf16"]}),
        ],
        ["bytes decide while tokens are written, products while they are read, and launches if nobody looks"],
    )
