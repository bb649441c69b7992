"""Exercise advanced-ex73, part a: the innermost own frame.

`own(stack, folder)`: frames (function, file), the innermost first; the first whose file lies in the folder
(its path begins with it), as the function's name. None where there is none.

A worked example: own([('linear', '/lib/nn.py'), ('step', '/app/train.py')], '/app/') is 'step'.

Grade it:         labcode exercises advanced-ex73a        (or: nox -s exercises -- advanced-ex73a)
Get a hint:       labcode exercises advanced-ex73a --hint
"""


def own(stack: list[tuple[str, str]], folder: str) -> str | None:
    """The innermost function of one's own."""
    raise NotImplementedError("the first frame whose file lies in the folder")


if __name__ == "__main__":
    print(own([("linear", "/lib/nn.py"), ("step", "/app/train.py")], "/app/"))
    print(own([("linear", "/lib/nn.py")], "/app/"))
