"""Exercise serving-ex34, part b: the slow pipeline on a GPU. Needs a GPU and PyTorch.

The machine of part a again, with the same calls, but each of them now costs what it costs: the tokenizer is
built, weights are converted, passes and caches are PyTorch's on a GPU, logits travel. `serve` below is slow
in the same eight ways. Bring your answer of part a, and see which flaw weighs how much on real hardware.

It is graded in this order: the same texts as the slow pipeline; then, beside it in the same run, at most an
eighth of its time. The grader also names what is still slow, and draws what each repair gains.

A worked example: where the slow pipeline takes 400 ms for 32 requests, yours may take 50 ms.

Grade it:         labcode exercises serving-ex34b        (or: nox -s exercises -- serving-ex34b)
Get a hint:       labcode exercises serving-ex34b --hint
Try it yourself:  labcode profile python exercises/serving/ex34_end_to_end_optimization/b_on_a_gpu.py
"""

from labcode.analysis.serving.pipeline import CONTEXT, END, Cache, Machine


def serve(machine: Machine, prompts: list[str], most: list[int]) -> list[str]:
    """The text behind each prompt."""
    # [solution]
    if not prompts:
        return []
    tokenizer, weights = machine.tokenizer(), machine.weights()
    new = {number: machine.encode(tokenizer, prompt) for number, prompt in enumerate(prompts)}
    caches = [Cache() for _ in prompts]
    said: list[list[int]] = [[] for _ in prompts]
    while new:
        running = list(new)
        logits = machine.forward(weights, list(new.values()), [caches[number] for number in running])
        for number, token in zip(running, machine.argmax(logits), strict=True):
            said[number].append(token)
            new[number] = [token]
            if token == END or len(said[number]) == most[number]:
                del new[number]
    return [machine.write(tokenizer, tokens) for tokens in said]
    # [starter]
    # texts = []
    # for prompt, limit in zip(prompts, most, strict=True):
    #     tokenizer = machine.tokenizer()
    #     tokens = machine.encode(tokenizer, prompt)
    #     said: list[int] = []
    #     text = ""
    #     while len(said) < limit and END not in said:
    #         weights = machine.weights()
    #         padded = tokens + said + [END] * (CONTEXT - len(tokens + said))
    #         logits = machine.forward(weights, [padded], [None])
    #         machine.synchronize()
    #         scores = machine.download(logits)[0]
    #         said.append(scores.index(max(scores)))
    #         text = machine.write(tokenizer, said)
    #     texts.append(text)
    # return texts
    # [end]


if __name__ == "__main__":
    machine = Machine()  # the one that only counts: the grader has the GPU's
    print(f"contexts of {CONTEXT} tokens:", serve(machine, ["bytes first", "who waits"], [12, 6]))
    print(machine.counts)
