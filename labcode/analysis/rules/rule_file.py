"""Rules in a file of one's own: the path of a Python file in, its rules out."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from pathlib import Path

from labcode.analysis.rules.finding import Rule
from labcode.analysis.rules.registry import rules_of
from labcode.errors import LabError
from labcode.inputs import plain_file


def load_rules(path: Path) -> list[Rule]:
    """The rules that a Python file defines, in their order; the file is run once.

    What it prints goes to stderr, so that a report on stdout stays whole. Raises `LabError` when the file is
    missing, cannot be run (with the line that failed) or defines no rule.
    """
    if not path.exists():
        raise LabError(f"{path}: no such file; name a Python file with functions under @rule")
    plain_file(path)
    spec = importlib.util.spec_from_file_location(f"labcode_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise LabError(f"{path}: not a Python file (its name does not end in .py); rename it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise LabError(
            f"{path}{_line(error, path)}: {type(error).__name__}: {_words(error)}; mend it"
        ) from None
    found = rules_of(module)
    if not found:
        raise LabError(
            f'{path}: defines no rule; put @rule("my-rule", title=…), from labcode.analysis.rules, on one'
        )
    return found


def line_of(error: BaseException, path: str) -> int | None:
    """The innermost line of a file on the way to an error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _line(error: BaseException, path: Path) -> str:
    line = error.lineno if isinstance(error, SyntaxError) else line_of(error, str(path))
    return f", line {line}" if line else ""


def _words(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
