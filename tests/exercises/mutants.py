"""Mutants of a solution: its text in, texts or trees with one small change in a marked region out.

A change is one that a learner could make: a bound that is one off or takes in its end, the largest for the
sum, one of two numbers for the larger of both, one key of a sort or of a group less, a condition that is left
out. Each mutant has a name that stays the same while its statement does: ``function: old -> new``.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from labcode.grading.generate import SIGNS

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FUNCTIONS = {
    "min": "max",
    "max": "min",
    "sum": "max",
    "sorted": "list",
    "any": "all",
    "all": "any",
    "idxmax": "idxmin",
    "idxmin": "idxmax",
    "cummax": "cummin",
    "mean": "median",
    "median": "mean",
    "first": "last",
    "last": "first",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "argmin": "argmax",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "ceil": "floor",
    "floor": "ceil",
    "cumsum": "cummax",
    "nunique": "size",
}
_SQL = [
    (r"(?<![<>!=])<(?![=>])", "<="),
    (r"<=", "<"),
    (r"(?<![-<>])>(?!=)", ">="),
    (r">=", ">"),
    (r"(?<![<>!])=", "<>"),
    (r"\bAND\b", "OR"),
    (r"\bOR\b", "AND"),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bsum\(", "max("),
    (r"\bavg\(", "max("),
    (r"\bLEFT JOIN\b", "JOIN"),
    (r"\bUNION ALL\b", "UNION"),
    (r"\bDESC\b", ""),
    (r"\bDISTINCT\b", ""),
    (r"\bORDER BY [^()\n]*", ""),
    (r"\bcount\((\w+\.\w+)\)", "count(*)"),
    (r"\bcoalesce\((.*), [^,()]*\)", r"\1"),
    (r" \+ ", " - "),
    (r" - ", " + "),
]


def mutants(source: str, file: str) -> Iterator[tuple[str, str | ast.Module, int]]:
    """The name of each mutant of a solution, its text or tree, which is another's thereafter, and the line of
    what was changed.
    """
    regions = _regions(source, SIGNS[Path(file).suffix])
    changed: Iterable[tuple[str, str | ast.Module, int]]
    changed = _of_sql(source, regions) if file.endswith(".sql") else _of_python(source, regions)
    seen: Counter[str] = Counter()
    for name, text, line in changed:
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), text, line


def _regions(source: str, sign: str) -> set[int]:
    """The numbers of the lines that a learner writes."""
    inside, lines = False, set()
    for number, line in enumerate(source.splitlines(), start=1):
        if match := re.fullmatch(rf"\s*{re.escape(sign)} ?\[(solution|starter|end)\]\s*", line):
            inside = match.group(1) == "solution"
        elif inside:
            lines.add(number)
    return lines


def _of_sql(source: str, regions: set[int]) -> Iterator[tuple[str, str, int]]:
    lines = source.splitlines(keepends=True)
    for number in sorted(regions):
        code = lines[number - 1].partition("--")[0]
        for pattern, new in _SQL:
            for match in re.finditer(pattern, code):
                line = code[: match.start()] + match.expand(new) + code[match.end() :]
                text = "".join([*lines[: number - 1], line.rstrip() + "\n", *lines[number:]])
                yield f"{' '.join(code.split())} -> {' '.join(line.split())}", text, number


def _of_python(source: str, regions: set[int]) -> Iterator[tuple[str, str | ast.Module, int]]:
    """Each place is changed in the tree itself, and put back."""
    tree = ast.parse(source)
    for function, statement, node in _nodes(tree, regions):
        before = _shown(statement)
        for change in _changes(node):
            undo = change()
            if (after := _shown(statement)) != before:
                ast.fix_missing_locations(statement)
                alone = isinstance(node, ast.BoolOp) and len(node.values) == 1  # which no compiler takes
                yield (
                    f"{function}: {before} -> {after}",
                    ast.unparse(tree) if alone else tree,
                    statement.lineno,
                )
            undo()


def _nodes(tree: ast.Module, regions: set[int]) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Each node of a region, with the function and the statement that it belongs to."""

    def walk(
        node: ast.AST, function: str, statement: ast.stmt | None
    ) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else function
            inner = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if inner is not None and getattr(inner, "lineno", 0) in regions:
                yield name, inner, child
            yield from walk(child, name, inner)

    yield from walk(tree, "", None)


def _shown(statement: ast.stmt) -> str:
    """A statement as one line; of a block, its head."""
    text = ast.unparse(statement)
    return text.splitlines()[0] if hasattr(statement, "body") else " ".join(text.split())


def _changes(node: ast.AST) -> Iterator[Any]:
    """What can be changed at a node: functions that change it and give back one that puts it back."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                if type(operator) in _COMPARISONS:
                    yield _item(node.ops, place, _COMPARISONS[type(operator)]())
        case ast.BinOp() if type(node.op) in _OPERATORS:
            yield _field(node, "op", _OPERATORS[type(node.op)]())
            if isinstance(node.op, ast.BitAnd):
                yield _emptied(node, "right")
                yield _emptied(node, "left")
        case ast.BoolOp():
            yield _field(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for place in range(len(node.values)):
                yield _field(node, "values", node.values[:place] + node.values[place + 1 :])
        case ast.UnaryOp(op=ast.Not()):
            yield _field(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.UnaryOp(op=ast.USub()):
            yield _field(node, "op", ast.UAdd())
        case ast.Constant(value=bool()):
            yield _field(node, "value", not node.value)
        case ast.Constant(value=int() | float() as number):
            yield _field(node, "value", number + 1)
            if number:
                yield _field(node, "value", number - 1)
        case ast.Call():
            yield from _changed_calls(node)
        case ast.Lambda(body=ast.Tuple() as keys):
            for place in range(len(keys.elts)):
                yield _field(keys, "elts", keys.elts[:place] + keys.elts[place + 1 :])
        case ast.If() | ast.IfExp():
            yield _field(node, "test", ast.Constant(False))
            yield _field(node, "test", ast.Constant(True))
        case ast.comprehension() if node.ifs:
            for place in range(len(node.ifs)):
                yield _field(node, "ifs", node.ifs[:place] + node.ifs[place + 1 :])
        case ast.AugAssign() if type(node.op) in _OPERATORS:
            yield _field(node, "op", _OPERATORS[type(node.op)]())
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="sort"))):
            yield _field(node, "value", ast.Constant(None))


def _changed_calls(node: ast.Call) -> Iterator[Any]:
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if node.func.id == "sorted":
            yield _both(_field(node.func, "id", "list"), _field(node, "keywords", []))
        else:
            yield _field(node.func, "id", _FUNCTIONS[node.func.id])
        if node.func.id in ("min", "max") and len(node.args) == 2:
            for one in node.args:
                yield _field(node, "args", [ast.List([one], ast.Load())])
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in _FUNCTIONS:
            yield _field(node.func, "attr", _FUNCTIONS[node.func.attr])
        if node.func.attr in ("sort_values", "sort_index"):
            yield _both(
                _field(node.func, "attr", "copy"),
                _both(_field(node, "args", []), _field(node, "keywords", [])),
            )
        if node.func.attr in ("groupby", "sort_values", "drop_duplicates") and node.args:
            keys = node.args[0]
            if isinstance(keys, ast.List) and len(keys.elts) > 1:
                for place in range(len(keys.elts)):
                    yield _field(keys, "elts", keys.elts[:place] + keys.elts[place + 1 :])
    for place, keyword in enumerate(node.keywords):
        if keyword.arg in ("key", "default", "reverse", "ascending", "lower", "upper"):
            yield _field(node, "keywords", node.keywords[:place] + node.keywords[place + 1 :])


def _field(node: ast.AST, name: str, new: Any) -> Any:
    def change() -> Any:
        old = getattr(node, name)
        setattr(node, name, new)
        return lambda: setattr(node, name, old)

    return change


def _item(items: list[Any], place: int, new: Any) -> Any:
    def change() -> Any:
        old, items[place] = items[place], new
        return lambda: items.__setitem__(place, old)

    return change


def _emptied(node: ast.BinOp, side: str) -> Any:
    """One of two conditions on rows is left out: both sides are the other."""
    return _field(node, side, node.left if side == "right" else node.right)


def _both(first: Any, second: Any) -> Any:
    def change() -> Any:
        undo = first(), second()
        return lambda: [back() for back in undo]

    return change
