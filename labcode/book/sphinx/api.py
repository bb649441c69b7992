"""The reference of the API: signatures as a reader takes them, and a link only to what a name means.

Sphinx looks for a short name, `Table`, in the whole project, and takes the first of several that have it:
whichever page was read first. Here the imports of the module decide.
"""

import ast
import contextlib
import functools
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.pycode.parser import Parser

# Annotated[list[str] | None, <typer.models.OptionInfo object at 0x7f…>]: the type, and an option
_ANNOTATED = re.compile(r"(?:~?\w+\.)*Annotated\[((?:[^\[\]<>]|\[[^\[\]<>]*\])*), <[^<>]*>\]")


def plain(signature: str | None) -> str | None:
    """A signature without the objects that describe options, whose addresses differ in each build."""
    return None if signature is None else _ANNOTATED.sub(r"\1", signature)


def plain_signature(
    _app: object,
    _what: str,
    _name: str,
    _obj: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """For Sphinx' event ``autodoc-process-signature``."""
    return plain(signature), plain(returns)


def without_lines() -> contextlib.AbstractContextManager[object]:
    """Inside of the block autodoc does not look for the lines of each definition, a quarter of its time.

    It leaves them unused. A Sphinx that looks for them in another way is left as it is: it takes longer.
    """
    if hasattr(Parser, "parse_definition"):
        return mock.patch.object(Parser, "parse_definition", lambda _: None)
    return contextlib.nullcontext()


@functools.cache
def imports(module: str) -> Mapping[str, str]:
    """What a module's ``from`` imports call things: name to full name; empty if there is no such module."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return {}
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return {}
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }


def meant(name: str, found: list[str], imported: Mapping[str, str]) -> str | None:
    """Of several full names that end alike the one imported, or one below the package it is imported from."""
    full = imported.get(name.partition(".")[0], "")
    if not full:
        return None
    package, _, own = full.rpartition(".")
    rest = name.partition(".")[1:]
    wanted = f".{own}{''.join(rest)}"
    near = [one for one in found if one.endswith(wanted) and one.startswith(f"{package}.")]
    exact = f"{package}{wanted}"
    return exact if exact in near else near[0] if len(near) == 1 else None


class ImportedNames(PythonDomain):
    """Python's domain; a name with several meanings has the one of the module that uses it, or no link."""

    def find_obj(
        self,
        env: BuildEnvironment,
        modname: str | None,
        classname: str | None,
        name: str,
        type: str | None,
        searchmode: int = 0,
    ) -> list[tuple[str, ObjectEntry]]:
        """As Sphinx' own; at most one where the search was a guess."""
        found = super().find_obj(env, modname, classname, name, type, searchmode)  # type: ignore[arg-type]
        if len(found) < 2:
            return found
        one = meant(name, [full for full, _ in found], imports(modname) if modname else {})
        return [(full, entry) for full, entry in found if full == one]


def register(app: Any) -> None:
    """Put both in their places."""
    app.add_domain(ImportedNames, override=True)
    app.connect("autodoc-process-signature", plain_signature)
