"""Tries to read on the host what the machine has not been asked for, and fill a cache by hand."""

# part: serving-ex34a

from labcode.analysis.serving.pipeline import Cache


def serve(machine, prompts, most):
    if not prompts:
        return []
    tokenizer, weights = machine.tokenizer(), machine.weights()
    texts = []
    for prompt, limit in zip(prompts, most, strict=True):
        cache, said = Cache(machine.encode(tokenizer, prompt)[:-1]), []
        new = machine.encode(tokenizer, prompt)[-1:]
        while len(said) < limit and 0 not in said:
            new = list(machine.forward(weights, [new], [cache]).likeliest)
            said += new
        texts.append("".join(tokenizer[token] for token in said if token))
    return texts


def measured(prompts, most):
    from labcode.analysis.serving.pipeline import Machine, diagnosis, needed

    machine = Machine()
    texts = serve(machine, prompts, most)
    machine.counts["passes"] = 0
    return {"texts": texts, "slow": diagnosis(machine.counts, needed(prompts, most))}
