"""Exercise lm-ex07, part a: memory counted by hand.

Count what a training step in fp32 needs, with AdamW and attention written out.

    model          layers, d_model, d_ff, heads, vocabulary: whole numbers. There is a table of the tokens of
                   the vocabulary and one of ``context`` places, each entry d_model wide; in each block four
                   matrices of attention, d_model x d_model, two of the feed-forward network, d_model x d_ff
                   and back, and two normalizations; at the end one more normalization, and a matrix of its
                   own to the logits. A normalization has two vectors of d_model; there are no biases. d_ff is
                   the inner width, and need not be four times d_model
    batch, context    how many texts, and how many tokens in each
    checkpoints    False; or True: each block keeps its input only, and is computed again

``training_memory`` gives a dictionary in GB (10^9 bytes):

    parameters, gradients, means    each by itself; the means are what AdamW keeps
    kept    the activations that are there after the forward pass, for the backward pass. What lies after the
            last block (normalization, logits, loss) keeps the same with and without checkpoints
    peak    of the whole step; the optimizer makes one more list, as large as the parameters. With
            checkpoints: the block in work has all that it keeps without, but three tensors of scores in place
            of one; beside it there are the inputs and logits, or later, in their place, all gradients

``most_texts`` gives the largest batch whose peak is not above ``gpu_gb``; 0 where not even one text fits.

A worked example, in floats of four bytes: 2 layers, d_model 4, d_ff 6, 2 heads, vocabulary 10; one text of 3
tokens. There are 356 parameters, 128 of them in each block. A block keeps 8 * 12 + 2 * 18 + 18 = 150 floats,
the end 2 * (12 + 30), so that kept is 384, and 108 with checkpoints. The peak is the optimizer's both times,
5 * 356 floats: before it there are 1452 at most, and 1610 with checkpoints.

Cases from captures are compared with what was measured, within 5 percent; all others are exact.

Grade it:         labcode exercises lm-ex07a        (or: nox -s exercises -- lm-ex07a)
Get a hint:       labcode exercises lm-ex07a --hint
Try it yourself:  python exercises/lm/ex07_memory/a_count.py     (runs on a capture of the book)
"""


def training_memory(model: dict[str, int], batch: int, context: int, checkpoints: bool) -> dict[str, float]:
    """Five sizes in GB."""
    # [solution]
    width, layers, vocabulary = model["d_model"], model["layers"], model["vocabulary"]
    matrices = 4 * width**2 + 2 * width * model["d_ff"]
    parameters = layers * (matrices + 4 * width) + (2 * vocabulary + context + 2) * width
    residual, inner = batch * context * width, batch * context * model["d_ff"]
    scores, logits = batch * model["heads"] * context**2, batch * context * vocabulary
    block = 8 * residual + 2 * inner + scores
    ends = 2 * (residual + logits)
    if checkpoints:
        kept = layers * residual + ends
        passes = max(3 * parameters + kept, 4 * parameters) + block + 2 * scores
    else:
        kept = layers * block + ends
        passes = 3 * parameters + kept
    floats = {
        "parameters": parameters,
        "gradients": parameters,
        "means": 2 * parameters,
        "kept": kept,
        "peak": max(passes, 5 * parameters),
    }
    return {name: 4 * count / 1e9 for name, count in floats.items()}
    # [starter]
    # raise NotImplementedError("count parameters, a block, the ends; the peak is the largest of some sums")
    # [end]


def most_texts(model: dict[str, int], context: int, checkpoints: bool, gpu_gb: float) -> int:
    """The largest batch that can be trained."""
    # [solution]
    batch = 0
    while training_memory(model, batch + 1, context, checkpoints)["peak"] <= gpu_gb:
        batch += 1
    return batch
    # [starter]
    # raise NotImplementedError("one text more, as long as the peak fits")
    # [end]


if __name__ == "__main__":
    from dataclasses import asdict

    from labcode.analysis.lm.decoder import SIZES
    from labcode.store import load_set

    small = asdict(SIZES["small"])
    measured = load_set().record("lm_memory", "memory")
    texts = measured["parameters"]["batch"]
    for case in measured["results"]["cases"]:
        what = case["size"], case["passes"], case["precision"], case["fits"]
        if what == ("small", "train", "fp32", True):
            found = training_memory(small, texts, case["context"], case["recompute"])
            kept_gb = (case["after_forward_bytes"] - case["before_step_bytes"]) / 1e9
            print(f"{case['context']} tokens, checkpoints {case['recompute']}, counted and measured:")
            print(f"    kept {found['kept']:.3f} {kept_gb:.3f} GB", end=", ")
            print(f"peak {found['peak']:.3f} {case['step_peak_bytes'] / 1e9:.3f} GB")
    for again in (False, True):
        print(f"the most texts of 1024 tokens in 141 GB: {most_texts(small, 1024, again, 141.0)}")
