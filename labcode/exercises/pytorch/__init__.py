"""The exercises of the part «The PyTorch profiler»: each module ``entry_exNN.py`` here describes one.

To add an exercise, put a module ``entry_exNN.py`` with one `Exercise` named ``EXERCISE`` here, its graders
beside it, and its solutions in ``solutions/pytorch/``. Nothing else lists it.
"""

from __future__ import annotations

from labcode.exercises.entries import entries
from labcode.grading.records import Exercise

__all__ = ["EXERCISES"]

EXERCISES: tuple[Exercise, ...] = entries(__name__, __path__)
