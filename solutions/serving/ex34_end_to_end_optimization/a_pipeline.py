"""Exercise serving-ex34, part a: a slow pipeline with eight flaws.

`serve(machine, prompts, most)` gives the text that follows each prompt: up to the model's end (token END),
but at most most[k] tokens for prompts[k]. The machine (`labcode.analysis.serving.pipeline.Machine`)
counts what is asked of it:

    machine.tokenizer()                       load the tokenizer
    machine.weights()                         convert the weights
    machine.encode(tokenizer, text)           the tokens of a text
    machine.forward(weights, new, caches)     one pass over the weights: new tokens of each sequence (a list
                                              of lists), and its cache, which takes them in; None: no cache
    machine.argmax(logits)                    the likeliest token of each sequence; waits for the pass
    machine.download(logits)                  all logits of each sequence; waits for the pass
    machine.synchronize()                     waits
    machine.write(tokenizer, tokens)          the text of tokens

The texts are right as they are. Eight things make it slow, from the host to the memory. Do no more than is
needed of anything: graded are the texts of your `serve` and what its machine has counted, beside the least
possible counts. The grader keeps that machine; `measured` shows the same of one of your own.

A worked example: for two prompts whose answers have 3 and 5 tokens, the least possible are 1 tokenizer, 1
conversion, 5 passes with 5 waits, 8 tokens sent to the host, and 8 letters written.

Grade it:         labcode exercises serving-ex34a        (or: nox -s exercises -- serving-ex34a)
Get a hint:       labcode exercises serving-ex34a --hint
Try it yourself:  python exercises/serving/ex34_end_to_end_optimization/a_pipeline.py
"""

from labcode.analysis.serving.pipeline import CONTEXT, END, Cache, Machine, diagnosis, ladder, needed


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


def measured(prompts: list[str], most: list[int]) -> dict[str, list[str]]:
    """The texts, and what is still slow, the costliest first, as they are graded."""
    machine = Machine()
    texts = serve(machine, prompts, most)
    return {"texts": texts, "slow": diagnosis(machine.counts, needed(prompts, most))}


if __name__ == "__main__":
    asked = ["how fast is a token", "bytes first", "who waits"], [12, 20, 6]
    machine = Machine()
    print(f"contexts of {CONTEXT} tokens; answers: {serve(machine, *asked)}")
    for line in diagnosis(machine.counts, needed(*asked)):
        print("still slow:", line)
    print(*ladder(machine.counts, needed(*asked)), sep="\n")
