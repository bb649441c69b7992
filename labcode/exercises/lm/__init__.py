"""The exercises of the part «Profiling a language model»: each module ``entry_exNN.py`` here describes one.

To add an exercise, put a module ``entry_exNN.py`` with one `Exercise` named ``EXERCISE`` here, its graders
beside it, and its solutions in ``solutions/lm/``. Nothing else lists it.
"""

from __future__ import annotations

import importlib
import pkgutil

from labcode.exercises.records import Exercise

__all__ = ["EXERCISES"]


def _entries() -> tuple[Exercise, ...]:
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name.startswith("entry_"))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return tuple(module.EXERCISE for module in modules)


EXERCISES: tuple[Exercise, ...] = _entries()
