"""Tries to replace the function that was graded, and answer in its form."""

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
    return {"texts": texts, "slow": []}


def measured(prompts, most):
    from labcode.analysis.serving.pipeline import Machine

    return serve(Machine(), prompts, most)
