"""The files of an experiment in; all that it is made of out: what they import and include, and no more.

Of the lab count programs and what they share, kernels, timers, and the sizes of language models; not what
reads command lines, builds, or describes kernels: a change there leaves what was measured as it is.
"""

import ast
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from labcode.capture.experiment import Experiment
from labcode.freshness import expand
from labcode.store import repository_root

_COUNTS = re.compile(r"labcode/(?:experiments/.|kernels/.|analysis/lm/.|timing\.py$)")
_OTHERWISE = re.compile(
    r"/__init__\.py$|/cuda\.py$|/picture\.py$|labcode/kernels/(?:build|catalogue)\.py$"
    r"|labcode/experiments/shared/common\.py$"
)
_COMMON = "labcode/experiments/shared/common.py"
_MARKS = ("nvtx_range", "synchronize")  # of that module: what lies in what is measured
_FLAGS = "labcode/kernels/build.py:FLAGS"
_HEADER = re.compile(r"[\w/]+\.cuh?")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def sources_of(experiment: Experiment, root: Path | None = None) -> tuple[str, ...]:
    """What makes captures of an experiment stale: its ``sources``, and what follows from what it is made of.

    Paths, globs and ``module.py:NAME``, relative to ``root`` (the repository). Raises `InputError` for a
    source that is missing.
    """
    root = root or repository_root()
    if not experiment.made_of:
        return experiment.sources
    named = [path.relative_to(root).as_posix() for path in expand(experiment.sources, root)]
    return tuple(sorted({*experiment.sources, *follow((*experiment.made_of, *named), root)}))


def follow(files: tuple[str, ...], root: Path) -> set[str]:
    """Some files and all that they import of the lab or include, as far as it counts."""
    found: set[str] = set()
    waiting = list(files)
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            waiting += _next(root, source)
    return found


@functools.lru_cache(maxsize=1024)
def _next(root: Path, source: str) -> tuple[str, ...]:
    if ":" in source:
        return ()
    text = (root / source).read_text(encoding="utf-8")
    if source.endswith(".py"):
        return tuple(_imports(root, text))
    folder = (root / source).parent
    included = (os.path.relpath(os.path.normpath(folder / name), root) for name in _INCLUDE.findall(text))
    return (*(Path(path).as_posix() for path in included), *((_FLAGS,) if source.endswith(".cu") else ()))


def _imports(root: Path, text: str) -> Iterator[str]:
    """What a module imports of the lab, and the headers of ``cuda/`` that it names."""
    aliases: set[str] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("labcode."):
            for name in node.names:
                module = f"{node.module.replace('.', '/')}/{name.name}.py"
                if not (root / module).is_file():
                    module = f"{node.module.replace('.', '/')}.py"
                    if module == _COMMON and name.name in _MARKS:
                        yield f"{_COMMON}:{name.name}"
                elif module == _COMMON:
                    aliases.add(name.asname or name.name)
                if module.endswith("/cuda.py"):
                    yield from _program_of(root, module)
                if _COUNTS.match(module) and not _OTHERWISE.search(module) and (root / module).is_file():
                    yield module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            headers = (root / "cuda").glob(node.value) if _HEADER.fullmatch(node.value) else ()
            yield from (path.relative_to(root).as_posix() for path in headers)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _MARKS and isinstance(node.value, ast.Name):
            yield from (f"{_COMMON}:{node.attr}" for alias in aliases if alias == node.value.id)


def _program_of(root: Path, module: str) -> Iterator[str]:
    """The program that a ``cuda.py`` describes: the first word of its description names it."""
    for node in ast.walk(ast.parse((root / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            program = str(node.args[0].value)
            if (root / f"cuda/{program}/{program}.cu").is_file():
                yield f"cuda/{program}/{program}.cu"
