"""The programs that get profiled, by the names that users type: ``python -m labcode.workloads.NAME``.

A name stands for ``program.py`` in the folder of that name below ``labcode/experiments``, whichever part it
is in; ``PART.NAME`` names the part, too. Names of before that are neither stand in `NAMES`, the one table of
them.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

NAMES: Mapping[str, str] = {
    "cuda": "shared.cuda",
    "gpu.phases": "nsys.gpu_phases.program",
    "llama.__main__": "lm.llama.program",
    "llama.sharded": "scaling.llama_sharded.program",
    "older": "compute.attention.older",
    "shared": "shared",
}
_ROOT = "labcode.experiments"
_FOLDER = Path(__file__).resolve().parents[1] / "experiments"


def located(name: str) -> str:
    """The module that ``labcode.workloads.NAME`` stands for; '' where there is no such program."""
    if not name.startswith(f"{__name__}."):
        return ""
    words = name.removeprefix(f"{__name__}.").split(".")
    for count in range(len(words), 0, -1):
        if (place := NAMES.get(".".join(words[:count]))) is not None:
            return ".".join((_ROOT, place, *words[count:]))
    if _holds_others(name) or len(words) > 2:
        return ""
    found = sorted(_FOLDER.glob("/".join((*(["*"] if len(words) == 1 else []), *words, "program.py"))))
    return ".".join((_ROOT, *found[0].relative_to(_FOLDER).with_suffix("").parts)) if len(found) == 1 else ""


def _holds_others(name: str) -> bool:
    """Whether a name is the first half of others."""
    own = name.removeprefix(f"{__name__}.")
    return any(one.startswith(f"{own}.") for one in NAMES) or (_FOLDER / own / "__init__.py").is_file()


class _Loader(SourceFileLoader):
    """Runs a module under its other name, and imports it under both as the same."""

    def __init__(self, name: str, path: str, module: str) -> None:
        super().__init__(name, path)
        self.module = module

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.module)


class _Finder(MetaPathFinder):
    """Finds what is imported or run as ``labcode.workloads.NAME``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        module = located(fullname)
        spec = find_spec(module) if module else None
        if spec is not None and spec.origin is not None:
            loader, inside = _Loader(fullname, spec.origin, module), spec.submodule_search_locations
            return spec_from_file_location(
                fullname, spec.origin, loader=loader, submodule_search_locations=inside
            )
        return ModuleSpec(fullname, None, is_package=True) if _holds_others(fullname) else None


sys.meta_path.insert(0, _Finder())
