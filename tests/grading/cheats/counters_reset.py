"""Tries to set the machine's counts back."""

# part: serving-ex34a

def serve(machine, prompts, most):
    texts = []
    for prompt, limit in zip(prompts, most, strict=True):
        tokenizer = machine.tokenizer()
        tokens = machine.encode(tokenizer, prompt)
        said = []
        text = ""
        while len(said) < limit and 0 not in said:
            logits = machine.forward(machine.weights(), [tokens + said], [None])
            said.append(machine.argmax(logits)[0])
            text = machine.write(tokenizer, said)
        texts.append(text)
    vars(machine)["counts"] = dict.fromkeys(getattr(machine, "counts", {}), 0)
    return texts


def measured(prompts, most):
    from labcode.analysis.serving.pipeline import Machine

    return {"texts": serve(Machine(), prompts, most), "slow": []}
