"""Which rules there are: the lab's own, and those of installed packages, in; a list of rules out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from labcode.analysis.rules.finding import Rule

GROUP = "labcode.rules"
_OWN = ("idle", "copies", "small_work", "ranks", "profile")


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that gave no rule: its name and why."""

    name: str
    reason: str


def rules_of(module: ModuleType) -> list[Rule]:
    """The rules defined in a module, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Rule)]


def own_rules() -> list[Rule]:
    """The lab's own rules."""
    modules = (importlib.import_module(f"labcode.analysis.rules.{name}") for name in _OWN)
    return [found for module in modules for found in rules_of(module)]


def all_rules(plugins: Iterable[EntryPoint] | None = None) -> tuple[list[Rule], list[BrokenPlugin]]:
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
