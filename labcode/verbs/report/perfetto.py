"""What a trace in Perfetto's format says in a report."""

from labcode.verbs.report import together
from labcode.verbs.report.document import Part
from labcode.verbs.report.traces import PART as TRACES

PART = Part(
    judged=together.judged,
    reports={name: TRACES.reports[name] for name in ("kernels", "calls", "counters")},
    more=TRACES.more,
    idle=TRACES.idle,
    changed=TRACES.changed,
)
