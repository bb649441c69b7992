"""Where a claim's value comes from: the cells that ran and the line of the claim in, experiments out.

A set may lack experiments, and the book takes those from the shipped set. What a page computes from them is
no measurement of the set that the book is built around. Which experiments a value rests on is read from the
cells: a statement rests on the experiments that it names and on those behind the names that it uses.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import NamedTuple


def experiments_behind(frame: FrameType | None, known: Collection[str]) -> list[str]:
    """Which of the ``known`` experiments the statement of a page rests on that the call at ``frame`` is in.

    Outside of a notebook, where no cells are kept, all of them.
    """
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    cells = frame.f_globals.get("In") if frame is not None else None
    if frame is None or not cells:
        return sorted(known)
    return sorted(behind_line(list(map(str, cells)), frame.f_lineno, known))


def behind_line(cells: Sequence[str], line: int, known: Collection[str]) -> set[str]:
    """Which of the ``known`` experiments the statement at ``line`` of the last cell rests on.

    What is inside of one statement (a loop, a function) is taken together, so there may be too many. An
    experiment is seen where its name is written, or a part of it that has a letter.
    """
    behind: dict[str, set[str]] = {}
    imported: set[str] = set()
    for position, cell in enumerate(cells):
        for statement in _statements(cell):
            own = {name for name in known if name in statement.texts or statement.written.fullmatch(name)}
            own = own.union(*(behind.get(name, ()) for name in statement.used))
            if position == len(cells) - 1 and line <= statement.last_line:
                return own
            imported |= statement.imported
            for name in statement.changed - imported:
                behind[name] = own if name in statement.fresh else behind.get(name, set()) | own
    return set()


class _Statement(NamedTuple):
    """What counts of a statement: its last line, the texts in it, what its f-strings can be, names."""

    last_line: int
    texts: frozenset[str]
    written: re.Pattern[str]
    used: frozenset[str]
    imported: frozenset[str]
    changed: frozenset[str]
    fresh: frozenset[str]  # of those changed, the ones that it gives a value of its own


@lru_cache(maxsize=256)
def _statements(cell: str) -> tuple[_Statement, ...]:
    """The statements of a cell; every claim of a page asks about the cells before it."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:  # a magic line: pages have none
        return ()
    return tuple(_read(one) for statement in body for one in _pairs(statement) or [statement])


def _read(statement: ast.stmt) -> _Statement:
    nodes = list(ast.walk(statement))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    imports = isinstance(statement, ast.Import | ast.ImportFrom)
    aliases = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return _Statement(
        statement.end_lineno or statement.lineno,
        frozenset(texts),
        re.compile("|".join(_patterns(nodes)) or r"(?!)"),
        frozenset(node.id for node in names if isinstance(node.ctx, ast.Load)),
        frozenset((alias.asname or alias.name).split(".")[0] for alias in aliases),
        frozenset(() if imports else _changed(statement, nodes)),
        frozenset(target.id for target in targets if isinstance(target, ast.Name)),
    )


def _pairs(statement: ast.stmt) -> list[ast.stmt]:
    """``a, b = x, y`` as its two assignments; nothing of any other statement."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return []
    if len(target.elts) != len(value.elts) or any(isinstance(one, ast.Starred) for one in value.elts):
        return []
    return [
        ast.copy_location(ast.Assign(targets=[one], value=of), statement)
        for one, of in zip(target.elts, value.elts, strict=True)
    ]


def _patterns(nodes: list[ast.AST]) -> Iterator[str]:
    """What the f-strings can be that have a letter of their own, with anything filled in."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            written = [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
            if any(letter.isalpha() for letter in "".join(written)):
                yield "".join(re.escape(part) or r"\w+" for part in written)


def _changed(statement: ast.stmt, nodes: list[ast.AST]) -> Iterator[str]:
    """The names that a statement gives a value to, or whose value it changes in place."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield from _root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _root(node.value)  # of a method


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id
