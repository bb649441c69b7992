"""Detective compute-ex54: which cut for which shape?

captures/h200/stream_k_bench/all.json.xz: one matmul kernel with tiles of 128 × 256 on an H200 (132
multiprocessors, a tile on each at a time), on seven shapes. `whole` leaves tiles whole, `split` cuts each
along k, and so does `cluster`, whose pieces are added up by the blocks of a cluster; `stream_k` cuts all of
them as one line, `hybrid` only what does not fill a wave; in `pair` two blocks share B; `both` is hybrid and
pair. Leave out `joint`, `early` and `aside`.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Share, Word

STEPS = ("whole", "split", "cluster", "stream_k", "hybrid", "pair", "both")
QUESTIONS = (
    Count("tiles", "tail: tiles of 128 × 256 that cover C"),
    Share("filled", "tail: the share of two waves' places that these tiles fill", by=0.01),
    Word("thin", "the fastest of these steps on thin_16", words=STEPS),
    Number("gain", "tail: how many times as fast `both` is as `whole`", within=0.01),
    Number("square", "square: how many times as long `split` takes as `whole`", within=0.01),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    record = opened.record("h200", "stream_k_bench", "all")
    shapes, results = record["parameters"]["shapes"], record["results"]

    def us(shape: str, step: str) -> float:
        return float(results[shape][f"{step}_us"])

    def tiles(shape: str, height: int = 128, width: int = 256) -> int:
        m, n, _ = shapes[shape]
        return -(-m // height) * -(-n // width)

    fastest = min(STEPS, key=lambda step: us("thin_16", step))
    slower = {
        "whole": "whole tiles leave most multiprocessors without any: 16 tiles on 132",
        "hybrid": "without a full wave all of it is left over: it cuts what stream_k cuts",
        "pair": "a pair of blocks shares B: still 16 tiles",
        **{
            step: f"it takes {us('thin_16', step):.0f} µs, another {us('thin_16', fastest):.0f}"
            for step in ("cluster", "stream_k", "both")
        },
    }
    count, gain, square = tiles("tail"), us("tail", "whole") / us("tail", "both"), us("square", "split")
    return Answers(
        {
            "tiles": count,
            "filled": count / (2 * 132),
            "thin": fastest,
            "gain": gain,
            "square": square / us("square", "whole"),
        },
        [
            Misreading("tiles are 128 high and 256 wide", {"tiles": tiles("tail", 256, 128)}),
            Misreading("a tile has 128 × 256 elements, not 128 × 128", {"tiles": tiles("tail", 128, 128)}),
            Misreading("128 tiles have fewer elements than C", {"tiles": 128}),
            Misreading("128 of 264: fewer tiles than cover C", {"tiles": 128, "filled": 128 / 264}),
            Misreading("128 of 264: the places that stay empty, or too few tiles", {"filled": 128 / 264}),
            Misreading(
                "that is the share of one wave that the last one fills", {"filled": (count - 132) / 132}
            ),
            Misreading(
                "that is over the places of one wave; two waves have twice as many", {"filled": count / 132}
            ),
            *(Misreading(says, {"thin": step}) for step, says in slower.items()),
            Misreading("the other way round", {"gain": 1 / gain}),
            Misreading("that is hybrid alone", {"gain": us("tail", "whole") / us("tail", "hybrid")}),
            Misreading(
                "that is joint, which is left out", {"gain": us("tail", "whole") / us("tail", "joint")}
            ),
            Misreading("that is over cuBLAS", {"gain": us("tail", "cublas") / us("tail", "both")}),
            Misreading("that is tail", {"square": us("tail", "split") / us("tail", "whole")}),
            Misreading("that is stream_k", {"square": us("square", "stream_k") / us("square", "whole")}),
            Misreading("the other way round", {"square": us("square", "whole") / square}),
        ],
        ["cut what does not fill a wave, and leave alone what does"],
    )
