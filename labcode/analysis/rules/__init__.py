"""Expert rules: a capture's tables in, one finding for each rule out.

A rule is a function with the decorator `rule`. The lab's own lie in the modules of this package; other
packages add theirs under the entry point group ``labcode.rules``, each naming a rule or a module of rules.
"""

from labcode.analysis.rules.finding import CannotJudgeError, Finding, Rule, Verdict, rule
from labcode.analysis.rules.tables import Tables

__all__ = ["CannotJudgeError", "Finding", "Rule", "Tables", "Verdict", "rule"]
