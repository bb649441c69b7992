"""Predict serving-ex63: what fits beside the weights?

A Llama of 8.03 B parameters in bf16: 32 layers, 32 query heads over 8 heads of keys and values, 128
dimensions a head, a cache in bf16 in pages of 16 tokens. An H200 has 141 GB (10⁹ bytes) and reads at
4.8 TB/s on paper; nine tenths of its memory are for weights and cache. captures/h200/llama_writing
and captures/h200/paged_decode_bench have what was measured: predict first. Write each prediction as
[low, high]: the narrower, the more it is worth, if the measurement lies within. The first grading is
the one that is kept.
"""

from labcode.grading.sheet import Answers, Count, Interval, Misreading

QUESTIONS = (
    Count("sequences", "how many sequences of 16,384 tokens fit"),
    Count("tokens", "how many tokens each of 64 equally long sequences may have, in whole pages"),
    Interval(
        "writing_gb",
        "the most memory allocated while the model writes 64 tokens for a prompt of 64",
        unit="GB",
        widest=1.5,
    ),
    Interval(
        "long_us",
        "the time of attention in one layer, 16 sequences of 131,072 tokens (even, step balanced)",
        unit="µs",
        widest=2.0,
    ),
    Interval(
        "short",
        "the share of a plain read's rate that it reaches with one sequence of 1,024 tokens",
        share=True,
        widest=0.6,
    ),
)


def answers() -> Answers:
    """The right answers: what fits by arithmetic, times and bytes from the captures."""
    from labcode.grading import opened

    token, page = 2 * 32 * 8 * 128 * 2, 16
    weights, memory = 2 * 8.03e9, 141e9
    room = 0.9 * memory - weights

    def sequences(of_token: float = token, left: float = room) -> int:
        return int(left // (of_token * 16384))

    longest = int(room // (64 * token))
    rows = opened.record("h200", "paged_decode_bench", "even")["results"]["rows"]

    def of(batch: int, tokens: int) -> dict[str, float]:
        return next(
            one
            for one in rows
            if (one["implementation"], one["batch"], one["tokens"]) == ("balanced", batch, tokens)
        )

    writing = opened.record("h200", "llama_writing", "record")["results"]["ways"]["dynamic"]["peak_bytes"]
    return Answers(
        {
            "sequences": sequences(),
            "tokens": longest // page * page,
            "writing_gb": writing / 1e9,
            "long_us": of(16, 131072)["time_us"],
            "short": of(1, 1024)["of_read"],
        },
        [
            Misreading("one sequence too many: a part of one does not fit", {"sequences": sequences() + 1}),
            Misreading(
                "four query heads share a head of the cache: 8 heads count",
                {"sequences": sequences(4 * token)},
            ),
            Misreading(
                "a token has keys and values, and each number has two bytes",
                {"sequences": sequences(token / 2)},
            ),
            Misreading(
                "a token has keys and values, and each number has two bytes",
                {"sequences": sequences(token / 4)},
            ),
            Misreading("every one of 32 layers has its cache", {"sequences": sequences(token / 32)}),
            Misreading("the weights need their place, too", {"sequences": sequences(left=0.9 * memory)}),
            Misreading(
                "a tenth of the memory is for other things", {"sequences": sequences(left=memory - weights)}
            ),
            Misreading(
                "GB are 10⁹ bytes, not GiB", {"sequences": sequences(left=0.9 * 141 * 2**30 - weights)}
            ),
            Misreading("pages are whole: 16 tokens are taken or none", {"tokens": longest}),
            Misreading(
                "four query heads share a head of the cache: 8 heads count",
                {"tokens": longest // 4 // page * page},
            ),
            Misreading("that is all sequences together", {"tokens": int(room // token) // page * page}),
            Misreading("bf16 has two bytes a parameter", {"writing_gb": 8.03}),
            Misreading("bf16 has two bytes a parameter, not four", {"writing_gb": 32.1}),
            Misreading(
                "that is about 32 layers' time; one is asked for", {"long_us": 32 * of(16, 131072)["time_us"]}
            ),
            Misreading(
                "four query heads share what is read: the bytes count once",
                {"long_us": 4 * of(16, 131072)["time_us"]},
            ),
            Misreading(
                "a read of 4 MB is over in microseconds: what comes before and after it counts, too",
                {"short": 0.95},
            ),
        ],
        ["a cache is bytes a token, times tokens: what fits is a division, and so is its time"],
    )
