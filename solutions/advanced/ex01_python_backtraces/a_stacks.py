"""Exercise advanced-ex01, part a: what a stack says.

nsys took a stack of Python frames at a CUDA call. Most of its frames are not yours: PyTorch's modules and
functions, Python's start-up. Write the two functions that part b is made of.

A frame is a tuple (function, file, line). A stack is a list of frames, the innermost first. A *path* holds
the program's own frames alone, the outermost first, as you would tell it: step calls forward calls mix.

A frame belongs to a library when its file

- lies in a folder `site-packages` or `dist-packages`,
- lies in a folder of Python's own library: `lib/python3` or `lib/python3.12`, with any number,
- is no file at all: `<frozen runpy>`, `<string>`.

Every other frame is the program's own, also one that a library called. A worked example:

    user_path([("linear", "site-packages/torch/nn/functional.py", 125),
               ("mix", "model.py", 118),
               ("_call_impl", "site-packages/torch/nn/modules/module.py", 1790),
               ("step", "train.py", 66),
               ("_run_code", "<frozen runpy>", 88)])
        ->  [("step", "train.py", 66), ("mix", "model.py", 118)]

Where nsys took no stack, the ones before and after it on the same thread still tell something: what both have
in common was running at both times.

    common_path([("step", "train.py", 66), ("mix", "model.py", 118)],
                [("step", "train.py", 66), ("mix", "model.py", 121), ("attend", "model.py", 65)])
        ->  [("step", "train.py", 66), ("mix", "model.py", 0)]

Try it yourself:  python exercises/advanced/ex01_python_backtraces/a_stacks.py  (on a capture of the book)
Grade it:         labcode exercises advanced-ex01a        (or: nox -s exercises -- advanced-ex01a)
Get a hint:       labcode exercises advanced-ex01a --hint
"""

import re
from collections.abc import Sequence

Frame = tuple[str, str, int]  # function, file, line


def user_path(stack: Sequence[Frame]) -> list[Frame]:
    """The program's own frames of a stack, the outermost first; empty when there are none."""
    # [solution]
    library = re.compile(r"(^|/)(site|dist)-packages/|(^|/)lib/python\d|^<")
    return [frame for frame in reversed(stack) if not library.search(frame[1])]
    # [starter]
    # raise NotImplementedError("leave out the frames of libraries, then turn the stack round")
    # [end]


def common_path(before: Sequence[Frame], after: Sequence[Frame]) -> list[Frame]:
    """What two paths have in common, from the outermost frame to the first that differs.

    A frame that differs in its line alone (the same function of the same file) is the last one, with line 0.
    """
    # [solution]
    common: list[Frame] = []
    for one, other in zip(before, after, strict=False):
        if one != other:
            if one[:2] == other[:2]:
                common.append((one[0], one[1], 0))
            break
        common.append(one)
    return common
    # [starter]
    # raise NotImplementedError("go inwards through both at once, and stop at the first difference")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    frames = open_report(load_set().path_of("python_backtraces", "baseline")).python_backtrace_frames()
    paths = [
        user_path(list(zip(stack["function"], stack["file"], stack["line"], strict=True)))
        for _, stack in frames.sort_values(["backtrace", "depth"]).groupby("backtrace")
    ]
    for path in paths[:4]:
        print(" calls ".join(f"{function}:{line}" for function, _, line in path))
    print("the first two have in common:", common_path(paths[0], paths[1]))
