"""The exercises of a part of the book: its package in, what its modules ``entry_exNN.py`` describe out."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from labcode.grading.records import Exercise


def entries(package: str, path: Iterable[str]) -> tuple[Exercise, ...]:
    """``EXERCISE`` of each module whose name begins with ``entry_``, by name."""
    names = sorted(found.name for found in pkgutil.iter_modules(path) if found.name.startswith("entry_"))
    modules = (importlib.import_module(f"{package}.{name}") for name in names)
    return tuple(module.EXERCISE for module in modules)
