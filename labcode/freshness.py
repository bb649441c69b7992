"""Which code made a capture: sources in, digests out that comments, layout and moves do not change."""

import ast
import functools
import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import InputError, describe_os_error
from labcode.store import ExperimentRecord, repository_root

_C_SUFFIXES = {".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp"}
_CODE = ("labcode", "cuda")  # where the sources of captures lie
_CHANGES = "captures/equivalent.toml"
_SKIPPED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}
_C_TOKEN = re.compile(
    r"""
      (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
    | (?P<raw>(?:u8|u|U|L)?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<string>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*")
    | (?P<char>(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
    | (?P<name>[^\W\d]\w*)
    | (?P<splice>\\\r?\n)
    | (?P<newline>\n)
    | (?P<space>[^\S\n]+)
    | (?P<sign><<<|>>>|<=>|->\*|\.\.\.|<<=|>>=|\#\#|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Change:
    """A change of a source after which earlier measurements still stand: both digests, and why."""

    source: str
    was: str
    now: str
    why: str


def source_digests(sources: Iterable[str], root: Path) -> dict[str, str]:
    """A digest for each source, by its path below ``root``.

    ``sources`` are paths or globs below ``root``; ``module.py:NAME`` stands for one top-level definition of a
    Python file. A digest stays the same across Python 3.11 to 3.13, across changes of comments, docstrings
    and layout, and when modules of the lab that the file imports move elsewhere. Raises `InputError` for a
    source that is missing or damaged.
    """
    found = {}
    for source in sources:
        pattern, _, name = source.partition(":")
        for path in expand([pattern], root):
            label = path.relative_to(root).as_posix() + (f":{name}" if name else "")
            found[label] = file_digest(path, name)
    return dict(sorted(found.items()))


def version_digest(sources: Iterable[str], root: Path) -> str:
    """One digest for many sources, independent of their folders: the version of a part of the lab."""
    return hashlib.sha256("\n".join(sorted(source_digests(sources, root).values())).encode()).hexdigest()


def expand(patterns: Iterable[str], root: Path) -> list[Path]:
    """The files that paths and globs name, sorted, each once; `InputError` for a pattern that names none."""
    found: set[Path] = set()
    for pattern in patterns:
        try:
            matches = {p for p in root.glob(pattern) if p.is_file() and "__pycache__" not in p.parts}
        except (ValueError, NotImplementedError) as error:
            raise InputError(
                f"{pattern!r}: names no source ({error}); correct the experiment's sources"
            ) from None
        if not matches:
            raise InputError(f"{root / pattern}: no such source file; correct the experiment's sources")
        found |= matches
    return sorted(found)


def file_digest(path: Path, name: str = "") -> str:
    """The digest of what a source file means: Python by syntax tree, C++ and CUDA by tokens, others by bytes.

    With ``name``, only that top-level definition of a Python file counts. Raises `InputError` for a file that
    is missing or damaged, or lacks that definition.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(describe_os_error(error)) from None
    try:
        return _digest(data, path.suffix, name)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: does not parse as Python ({error}); correct it") from None
    except LookupError:
        raise InputError(f"{path}: defines no {name}; correct the experiment's sources") from None


@functools.lru_cache(maxsize=4096)
def _digest(data: bytes, suffix: str, name: str) -> str:
    """The digest of a file's bytes; many experiments have the same sources."""
    if suffix == ".py":
        meaning = python_meaning(data.decode("utf-8"), name)
    elif suffix in _C_SUFFIXES:
        meaning = c_meaning(data.decode("utf-8", errors="surrogateescape"))
    else:
        return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()
    return hashlib.sha256(meaning.encode("utf-8", errors="surrogateescape")).hexdigest()


def python_meaning(source: str, name: str = "") -> str:
    """A Python module as text that only a change of code alters: its syntax tree without positions.

    Names imported from the lab count as the file calls them; where they come from does not. With ``name``
    only the top-level function, class or assignment of that name; `LookupError` without one.
    """
    tree = ast.parse(source)
    if name:
        tree.body = [statement for statement in tree.body if name in _defined(statement)]
        if not tree.body:
            raise LookupError(name)
    parts: list[str] = []
    _add(tree, parts)
    return "".join(parts)


def c_meaning(source: str) -> str:
    """A C++ or CUDA file as text that only a change of code alters: its tokens, directives kept apart."""
    return "\n".join(_c_tokens(source))


def is_fresh(record: ExperimentRecord, root: Path | None = None) -> bool:
    """Whether the code that made an experiment is still the code in ``root`` (by default the repository).

    A source that is not where it was counts as moved when a file of the same meaning lies elsewhere; one that
    changed counts as the same where ``captures/equivalent.toml`` says why (see `changes_since`).
    """
    return bool(record.sources) and not changed_sources(record, root)


def changed_sources(record: ExperimentRecord, root: Path | None = None) -> tuple[str, ...]:
    """The sources of an experiment that have changed since its capture (see `is_fresh`)."""
    root = root or repository_root()
    today = as_of_today(record, root)
    return tuple(label for label, digest in today.items() if not place_of(label, digest, root))


def changes_since(record: ExperimentRecord, root: Path | None = None) -> tuple[Change, ...]:
    """The changes of its sources that an experiment's measurements survive, and why."""
    root = root or repository_root()
    digests = set(record.sources.values())
    return tuple(change for change in equivalent(root) if change.was in digests)


def as_of_today(record: ExperimentRecord, root: Path | None = None) -> dict[str, str]:
    """The digests of a capture's sources, with those after `changes_since` in place of those before."""
    changed = {change.was: change.now for change in changes_since(record, root)}
    return {label: changed.get(digest, digest) for label, digest in record.sources.items()}


@functools.lru_cache(maxsize=8)
def equivalent(root: Path) -> tuple[Change, ...]:
    """The changes that ``captures/equivalent.toml`` lists, if it exists; `InputError` where it is damaged."""
    path = root / _CHANGES
    if not path.is_file():
        return ()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))["change"]
        return tuple(Change(**change) for change in found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a list of [[change]] with source, was, now, why ({error})") from None


def timed_code_changed(record: ExperimentRecord, root: Path | None = None) -> bool:
    """Whether the part of the lab that an experiment timed has changed; False where it timed none."""
    if not record.timed:
        return False
    return version_digest(record.timed.sources, root or repository_root()) != record.timed.digest


def place_of(label: str, digest: str, root: Path) -> str:
    """Where a source is today: at its old path, or where its meaning moved to; '' where it has changed."""
    place, _, name = label.partition(":")
    path = root / place
    try:
        if path.is_file():
            return label if file_digest(path, name) == digest else ""
        moved = (
            other
            for folder in _CODE
            for other in sorted((root / folder).rglob(f"*{path.suffix}"), key=lambda at: at.name != path.name)
            if _digest_or_none(other, name) == digest
        )
        found = next(moved, None)
    except InputError:
        return ""
    return found.relative_to(root).as_posix() + label[len(place) :] if found else ""


@functools.lru_cache(maxsize=4096)
def _digest_or_none(path: Path, name: str) -> str | None:
    try:
        return file_digest(path, name)
    except InputError:
        return None


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _add(value: object, parts: list[str]) -> None:
    """Add the texts of a node, of a list of them, or of a constant."""
    if isinstance(value, ast.AST):
        _add_node(value, parts)
    elif isinstance(value, list):
        parts.append("[")
        for item in value:
            _add(item, parts)
            parts.append(",")
        parts.append("]")
    else:
        parts.append(ascii(value))


def _add_node(node: ast.AST, parts: list[str]) -> None:
    parts += (type(node).__name__, "(")
    for name in sorted(node._fields):
        value = getattr(node, name, None)
        if name in _SKIPPED_FIELDS or (value is None and not isinstance(node, ast.Constant)):
            continue
        if isinstance(value, list):
            if isinstance(node, ast.JoinedStr):
                value = _merged(value)
            else:
                value = _without_places([item for item in value if not _idle(item)])
            if not value:
                continue
        elif name == "format_spec" and value is not None and not _merged(value.values):
            continue
        parts += (name, "=")
        _add(value, parts)
        parts.append(";")
    parts.append(")")


def _idle(item: object) -> bool:
    """A statement without effect: ``pass``, or a docstring or other bare string."""
    return isinstance(item, ast.Pass) or (
        isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, str)
    )


def _without_places(body: list[object]) -> list[object]:
    """Statements with all names imported from the lab's own modules first, as the file calls them."""
    own = [item for item in body if isinstance(item, ast.ImportFrom) and _is_own(item.module)]
    if not own:
        return body
    names = sorted({alias.asname or alias.name for item in own for alias in item.names})
    aliases = [ast.alias(name) for name in names]
    return [ast.ImportFrom("labcode", aliases, 0), *(item for item in body if item not in own)]


def _is_own(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == "labcode"


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string, neighboring literals joined, empty ones left out; parsers differ in these."""
    merged: list[ast.expr] = []
    for part in values:
        last = merged[-1] if merged else None
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                merged[-1] = ast.Constant(last.value + part.value)
            elif part.value:
                merged.append(part)
        else:
            merged.append(part)
    return merged


def _c_tokens(source: str) -> Iterator[str]:
    directive: list[str] = []  # the words of the preprocessor line being read, empty outside one
    fresh_line, spaced = True, False
    for match in _C_TOKEN.finditer(source):
        kind, text = match.lastgroup or "", match.group()
        kind = "raw" if kind == "delimiter" else kind
        if kind in ("comment", "space", "splice"):
            spaced = True
            continue
        if kind == "newline":
            if directive:
                yield "#end"
            directive, fresh_line, spaced = [], True, False
            continue
        if text == "#" and fresh_line and not directive:
            directive = ["#"]
        elif directive:
            if text == "(" and not spaced and len(directive) == 3 and directive[1] == "define":
                text = "call("  # `#define F(x)` takes an argument, `#define F (x)` does not
            directive.append(text)
        yield text
        fresh_line, spaced = False, False
    if directive:
        yield "#end"
