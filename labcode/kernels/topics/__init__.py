"""The kernels of each folder of ``cuda/``: cost models, steps and their reasons, references (``KERNELS``)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from labcode.errors import LabError
from labcode.kernels.catalogue import Kernel


def kernels(only: Sequence[str] = ()) -> tuple[Kernel, ...]:
    """All kernels, or those whose name or topic is named; `LabError` for a name there is not."""
    found: list[Kernel] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        found.extend(getattr(importlib.import_module(f"{__name__}.{module.name}"), "KERNELS", ()))
    known = {name for kernel in found for name in (kernel.name, kernel.topic)}
    for name in only:
        if name not in known:
            raise LabError(f"{name}: no kernel or topic of this name; there are {', '.join(sorted(known))}")
    return tuple(kernel for kernel in found if not only or kernel.name in only or kernel.topic in only)
