"""Detective lm-ex42: a second GPU for the Llama.

captures/h200/llama_training/record.json: training of a Llama of 8 B parameters on one H200, way by way.
captures/h200/llama_two/record.json: the same on two, sharded by FSDP2; windows count the tokens of both.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Number("rate", "two GPUs, `compiled`: tokens per second of both together", unit="tokens/s", within=0.02),
    Number("faster", "two GPUs: the rate of `stay` over that of `compiled`", within=0.01),
    Share("kept", "tokens per second and GPU: `stay` on two over `flex` of llama_training, on one", by=0.02),
    Number("memory", "two GPUs, `stay`: the peak memory of a GPU", unit="GB", within=0.01),
    Word(
        "changed",
        "what `bf16` changes against `compiled`",
        words=("bytes of gradients", "precision of matmuls", "where weights stay", "the optimizer"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    two, one = (opened.record("h200", run, "record")["results"] for run in ("llama_two", "llama_training"))

    def rate(results: dict[str, dict[str, dict[str, float]]], way: str) -> float:
        window = results["windows"][way]
        return 1e9 * window["tokens"] / (window["end_ns"] - window["begin_ns"])

    compiled, stay, alone = rate(two, "compiled"), rate(two, "stay"), rate(one, "flex")
    over_kept = stay / (2 * rate(one, "kept"))
    most = two["ways"]["compiled"]["peak_bytes"] / 1e9
    gib = two["ways"]["stay"]["peak_bytes"] / 2**30
    return Answers(
        {
            "rate": compiled,
            "faster": stay / compiled,
            "kept": stay / (2 * alone),
            "memory": two["ways"]["stay"]["peak_bytes"] / 1e9,
            "changed": "bytes of gradients",
        },
        [
            Misreading("that is for one of the two", {"rate": compiled / 2}),
            Misreading("that is `stay`", {"rate": stay}),
            Misreading("that is `bf16`", {"rate": rate(two, "bf16")}),
            Misreading(
                "that is a third: a window's tokens are those of all its three steps", {"rate": compiled / 3}
            ),
            Misreading(
                "that is twice as many: a window's tokens are those of both GPUs already",
                {"rate": 2 * compiled},
            ),
            Misreading("that is one GPU, of llama_training", {"rate": rate(one, "compiled")}),
            Misreading("that is over bf16", {"faster": stay / rate(two, "bf16")}),
            Misreading("that is over one GPU, of llama_training", {"faster": stay / rate(one, "compiled")}),
            Misreading("that is both together over the one", {"kept": stay / alone}),
            Misreading("that is over `compiled` on one", {"kept": stay / (2 * rate(one, "compiled"))}),
            Misreading(f"over `kept` it is {over_kept:.3f}", {"kept": over_kept}),
            Misreading("that is bf16", {"faster": rate(two, "bf16") / compiled}),
            Misreading("the other way round", {"faster": compiled / stay}),
            Misreading("that is `compiled` on two", {"kept": compiled / (2 * alone)}),
            Misreading("that is GiB", {"memory": gib}),
            Misreading(f"`compiled` has {most:.2f} GB", {"memory": most}),
            Misreading(
                "that is one GPU, of llama_training", {"memory": one["ways"]["compiled"]["peak_bytes"] / 1e9}
            ),
            Misreading("that is both together", {"memory": 2 * two["ways"]["stay"]["peak_bytes"] / 1e9}),
            Misreading("matmuls are in bf16 in both", {"changed": "precision of matmuls"}),
            Misreading("that is the next change, `stay`", {"changed": "where weights stay"}),
            Misreading("that is the same in all three", {"changed": "the optimizer"}),
        ],
        [f"each of the two has {stay / (2 * alone):.0%} of the rate of one alone"],
    )
