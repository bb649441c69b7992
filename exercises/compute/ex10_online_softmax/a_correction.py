"""Exercise compute-ex10, part a: the step that the attention ladder rests on, a softmax that is corrected.

A query's scores come a tile at a time. What is kept of the tiles so far is a state, three things relative to
a number `base`:

    (base, total, sums)    total: the sum of exp(score - base)
                           sums:  for each dimension, the sum of exp(score - base) * value

Nothing seen yet: `base` is -inf, `total` 0.0, `sums` zeros.

`add(state, scores, values)`: the state with a tile more. Its base is the largest score so far. `values` has
a list of the dimensions for each score. A score of -inf is a key that the query does not see.

`add_lazily(state, scores, values, slack)`: likewise, but the base stays as it is while no score of the tile
is larger than base + slack; then it becomes the largest score of the tile.

`merge(first, second)`: one state from two of the same query over different keys; its base is the larger.

`finish(state)`: the result, sums / total; zeros when no key was seen.

A worked example, with one dimension:

    add((-inf, 0.0, [0.0]), [0.0, 1.0], [[1.0], [2.0]])   ->  (1.0, 1.3679, [2.3679])
    add((1.0, 1.3679, [2.3679]), [2.0], [[3.0]])          ->  (2.0, 1.5032, [3.8711])
    add_lazily((1.0, 1.3679, [2.3679]), [2.0], [[3.0]], 2.0)  ->  (1.0, 4.0862, [10.5227])
    finish((2.0, 1.5032, [3.8711]))                       ->  [2.5752]

Grade it:         labcode exercises compute-ex10a        (or: nox -s exercises -- compute-ex10a)
Get a hint:       labcode exercises compute-ex10a --hint
"""

import math

State = tuple[float, float, list[float]]


def add(state: State, scores: list[float], values: list[list[float]]) -> State:
    """The state with a tile more, relative to the largest score so far."""
    raise NotImplementedError("what is there is relative to the old base")


def add_lazily(state: State, scores: list[float], values: list[list[float]], slack: float) -> State:
    """The state with a tile more; the base stays while no score is larger by more than `slack`."""
    raise NotImplementedError("when does the base change?")


def merge(first: State, second: State) -> State:
    """One state from two over different keys."""
    raise NotImplementedError("both relative to the same base")


def finish(state: State) -> list[float]:
    """The weighted mean of the values; zeros without any key."""
    raise NotImplementedError("the division that was put off")


if __name__ == "__main__":
    state: State = (-math.inf, 0.0, [0.0])
    for tile in ([0.0, 1.0], [2.0], [-1.0, 5.0]):
        state = add(state, tile, [[score] for score in tile])
        print(f"base {state[0]:.1f}, total {state[1]:.4f}, result {finish(state)[0]:.4f}")
