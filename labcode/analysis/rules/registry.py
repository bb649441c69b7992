"""Which rules there are: the lab's own, those of installed packages and of files in; lists of rules out."""

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from labcode.analysis.rules.finding import Rule
from labcode.errors import LabError
from labcode.inputs import plain_file

GROUP = "labcode.rules"
TOGETHER = "together"  # a folder of few traces, which are opened as one report


@dataclass(frozen=True)
class Group:
    """Rules that judge the same: the modules that declare them, each by `rule`; what they are on, for lists
    and messages."""

    modules: tuple[str, ...]
    title: str = ""
    of: str = ""


# A rule is declared where it is written: what stands in one of these modules is asked, in its order there.
GROUPS: Mapping[str, Group] = {
    "timelines": Group(
        ("host", "idle", "copies", "gpu_work", "ranks", "facts"),
    ),
    "counters": Group(("counters",), "more rules on captures with the GPU's own counters"),
    "kineto": Group(("kineto",), "more rules on traces of torch.profiler"),
    "ncu": Group(("ncu",), "rules on the launches of .ncu-rep files", " of .ncu-rep files"),
    "power": Group(("power",), "rules on power logs", " of power logs"),
    "ranks": Group(("many_ranks",), "rules on folders with a report for each rank", " of folders of ranks"),
}


ANY = "timelines"  # the group that plug-ins and files of rules add to
COUNTERS = "counters"  # the group that asks for the GPU's own counters


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that gave no rule: its name and why."""

    name: str
    reason: str


def rules_of(module: ModuleType) -> list[Rule[Any]]:
    """The rules defined in a module, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Rule)]


def own_rules(group: str = "timelines", kind: str = "") -> list[Rule[Any]]:
    """The lab's own rules of one of the `GROUPS`; of those the ones that judge a ``kind`` of files."""
    modules = (importlib.import_module(f"labcode.analysis.rules.{name}") for name in GROUPS[group].modules)
    return [found for module in modules for found in rules_of(module) if judges(found, kind)]


def judges(one: Rule[Any], kind: str) -> bool:
    """Whether a rule judges files of a kind; each judges some of '', which stands for any."""
    return not (kind and one.of) or kind in one.of


def all_rules(plugins: Iterable[EntryPoint] | None = None) -> tuple[list[Rule[Any]], list[BrokenPlugin]]:
    """The lab's own rules and those of the entry points of the group ``labcode.rules``.

    An entry point names a rule, or a module, whose rules all count. One that cannot be loaded, or whose rule
    has the id of another, is reported and does not stop the others.
    """
    rules = {found.id: found for found in own_rules()}
    broken = []
    for plugin in entry_points(group=GROUP) if plugins is None else plugins:
        try:
            loaded = plugin.load()
        except (Exception, SystemExit) as error:
            broken.append(BrokenPlugin(plugin.name, f"{type(error).__name__}: {error}"))
            continue
        found = (
            [loaded]
            if isinstance(loaded, Rule)
            else rules_of(loaded)
            if isinstance(loaded, ModuleType)
            else []
        )
        if not found:
            broken.append(
                BrokenPlugin(plugin.name, f"{plugin.value} is neither a rule nor a module with rules")
            )
        for one in found:
            if one.id in rules:
                broken.append(BrokenPlugin(plugin.name, f"there is a rule named {one.id} already"))
            else:
                rules[one.id] = one
    return list(rules.values()), broken


def load_rules(path: Path) -> list[Rule[Any]]:
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
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside the file
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise LabError(
            f"{path}{_line(error, path)}: {type(error).__name__}: {_words(error)}; mend it"
        ) from None
    finally:
        sys.dont_write_bytecode = kept
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
