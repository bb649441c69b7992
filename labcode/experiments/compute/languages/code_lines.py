"""Lines of code of a kernel: source text and a function's name in; lines of all that it needs of it, out.

One rule for all languages: a definition counts when the kernel reaches it by name, and of its lines those
that hold code; empty lines, comments, and docstrings hold none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_KIND = r"\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?[:{]"
_NO_NAMES = {
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "__launch_bounds__",
    "LAB_CLUSTER",
    "alignas",
    "asm",
}


def python_lines(text: str, roots: Sequence[str]) -> int:
    """Of a Python module: of these functions and what they use of it."""
    tree = ast.parse(text)
    defined: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in ast.walk(node):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    defined[target.id] = node
    uses = {name: {x.id for x in ast.walk(node) if isinstance(x, ast.Name)} for name, node in defined.items()}
    code = _code_lines(text, tree)
    reached = {id(defined[name]): defined[name] for name in _closure(uses, roots)}
    return sum(_first(node) <= line <= (node.end_lineno or 0) for node in reached.values() for line in code)


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])  # type: ignore[no-any-return]


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
            and ast.get_docstring(node) is not None
        ):
            found.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return found


def cuda_lines(texts: Iterable[str], roots: Sequence[str]) -> int:
    """Of headers in CUDA C++: of these kernels and what they use of them."""
    defined: dict[str, list[str]] = {}
    for text in texts:
        for piece in _pieces(_without_comments(text)):
            for name in _names(piece):
                defined.setdefault(name, []).append(piece)
    uses = {name: set(re.findall(r"\w+", " ".join(pieces))) for name, pieces in defined.items()}
    reached = {piece for name in _closure(uses, roots) for piece in defined[name]}
    return sum(bool(line.strip()) for piece in reached for line in piece.splitlines())


def _closure(uses: Mapping[str, set[str]], roots: Sequence[str]) -> set[str]:
    missing = [name for name in roots if name not in uses]
    if missing:
        raise KeyError(f"{missing[0]} is not defined there")
    found, left = set[str](), list(roots)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(uses[name] & uses.keys())
    return found


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def _pieces(text: str) -> list[str]:
    """Definitions, each with what stands before it; braces of namespaces are none."""
    found: list[str] = []
    text = re.sub(r"^\s*#\s*(?!define)[^\n]*$", "", text, flags=re.MULTILINE)  # keeps what is defined
    for macro in re.findall(r"^\s*#\s*define(?:[^\n]*\\\n)*[^\n]*", text, flags=re.MULTILINE):
        found.append(macro)
        text = text.replace(macro, "", 1)
    text = re.sub(r"\bnamespace(?:\s+\w+)?\s*\{", "", text)
    depth, start = 0, 0
    for at, sign in enumerate(text):
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth < 0:  # of a namespace
                depth, start = 0, at + 1
        if depth == 0 and (sign == ";" or (sign == "}" and text[at + 1 :].lstrip()[:1] != ";")):
            if text[start : at + 1].strip(" \n;}"):
                found.append(text[start : at + 1])
            start = at + 1
    return found


def _names(piece: str) -> list[str]:
    """What a definition defines."""
    macro = re.match(r"\s*#\s*define\s+(\w+)", piece)
    if macro:
        return [macro[1]]
    piece = re.sub(r"^\s*template\s*<[^{;()]*>(?=\s)", "", piece)
    kind = re.search(_KIND, piece)
    function = next((x for x in re.finditer(r"(\w+)\s*\(", piece) if x[1] not in _NO_NAMES), None)
    if kind and (function is None or kind.start() < function.start()):
        inside = re.search(r"\benum\b[^{]*\{([^}]*)\}", piece)
        return [kind[1], *(re.findall(r"\w+", inside[1]) if inside else [])]
    head = piece.split("{")[0]
    if "=" in head and (function is None or head.index("=") < function.start()):
        return re.findall(r"(\w+)\s*=(?!=)", piece)
    return [function[1]] if function else []
