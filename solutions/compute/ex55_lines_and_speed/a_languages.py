"""Detective compute-ex55: what a shorter kernel costs.

captures/h100/languages_bench/: a matmul (product_4096.json), attention of 64 heads with 8,192
positions (attention.json), and the same with a causal mask (attention_causal.json), each in CUDA C++,
Triton, TileLang, and cuTile, beside a library.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

LANGUAGES = ("cuda", "triton", "tilelang", "cutile")
QUESTIONS = (
    Word("closest", "causal attention: of the three languages of tiles the fastest", words=LANGUAGES[1:]),
    Number("lines", "attention: how many times as many lines CUDA C++ has as Triton", within=0.02),
    Share("product", "matmul: the rate of Triton as a share of cuBLAS's", by=0.005),
    Share("attention", "attention: the rate of Triton as a share of CUDA C++'s", by=0.01),
    Number("mask", "Triton: the time of attention without the mask over that with it", within=0.02),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    runs = {}
    for run in ("product_4096", "attention", "attention_causal"):
        rows = opened.record("h100", "languages_bench", run)["results"]["rows"]
        runs[run] = {row["name"]: row for row in rows}

    def us(run: str, name: str) -> float:
        return float(runs[run][name]["time_us"])

    causal, whole, product = "attention_causal", "attention", "product_4096"
    closest = min(LANGUAGES[1:], key=lambda name: us(causal, name))
    lines = runs[whole]["cuda"]["lines"] / runs[whole]["triton"]["lines"]
    share = us(whole, "cuda") / us(whole, "triton")
    masked = us(causal, "cuda") / us(causal, "triton")
    tiles = us(whole, "cuda") / us(whole, "cutile")
    return Answers(
        {
            "closest": closest,
            "lines": lines,
            "product": us(product, "cublas") / us(product, "triton"),
            "attention": share,
            "mask": us(whole, "triton") / us(causal, "triton"),
        },
        [
            Misreading(
                f"it takes {us(causal, 'triton'):,.0f} µs, another {us(causal, closest):,.0f}",
                {"closest": "triton"},
            ),
            Misreading("it has the fewest lines; by time another comes first", {"closest": "cutile"}),
            Misreading("the other way round", {"lines": 1 / lines}),
            Misreading(
                "those are the lines of the matmul",
                {"lines": runs[product]["cuda"]["lines"] / runs[product]["triton"]["lines"]},
            ),
            Misreading(
                "that is cuTile", {"lines": runs[whole]["cuda"]["lines"] / runs[whole]["cutile"]["lines"]}
            ),
            Misreading(
                "that is TileLang",
                {"lines": runs[whole]["cuda"]["lines"] / runs[whole]["tilelang"]["lines"]},
            ),
            Misreading(
                "over cuBLAS, not over CUDA C++; or else: that is TileLang",
                {"product": us(product, "cuda") / us(product, "triton")},
            ),
            Misreading("that is CUDA C++", {"product": us(product, "cublas") / us(product, "cuda")}),
            Misreading("that is cuTile", {"product": us(product, "cublas") / us(product, "cutile")}),
            Misreading("that is of cuDNN's rate", {"attention": us(whole, "cudnn") / us(whole, "triton")}),
            Misreading("that is with the mask", {"attention": masked}),
            Misreading("that is cuTile", {"attention": tiles}),
            Misreading("that is TileLang", {"attention": us(whole, "cuda") / us(whole, "tilelang")}),
            Misreading(
                "those are rates, and the mask halves the FLOP: times are asked for",
                {"mask": us(whole, "triton") / us(causal, "triton") / 2},
            ),
            Misreading(
                "those are rates, and the mask halves the FLOP: times are asked for",
                {"mask": 2 * us(causal, "triton") / us(whole, "triton")},
            ),
            *(
                Misreading(f"that is {said}", {"mask": us(whole, name) / us(causal, name)})
                for name, said in (
                    ("cuda", "CUDA C++"),
                    ("cutile", "cuTile"),
                    ("tilelang", "TileLang"),
                    ("flash", "flash"),
                )
            ),
            Misreading("half of the scores are left, and the time is not half: read it off", {"mask": 2.0}),
            Misreading("the other way round", {"mask": us(causal, "triton") / us(whole, "triton")}),
        ],
        ["a compiler knows matmuls; what is less usual costs more of the speed"],
    )
