"""Traces in Perfetto's own format: a ``.pftrace`` in, the tables of a trace of `torch.profiler` out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="perfetto",
    what="a trace in Perfetto's format",
    opens="labcode.reports.perfetto.report:open_pftrace",
    versions="labcode.reports.perfetto.schema:READ",
    ranges="range",
    stats="labcode.analysis.stats.kineto:OTHERS",
    export=None,
    diagnose="labcode.verbs.diagnose.files:run_on_timeline",
    rules=("kineto", "timelines"),
    compare="labcode.verbs.compare.pairs:run",
    timeline="labcode.verbs.timeline:draw_timeline",
    flame="labcode.verbs.flame:TRACES",
    roofline=None,
    scrub=None,
    facts="labcode.reports.facts:TRACES",
    tables="labcode.analysis.rules.kineto:TraceTables",
    report="labcode.verbs.report.traces:OTHERS",
)
