"""Traces of `torch.profiler`: a file or a folder of ranks in, tables out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="kineto",
    what="a trace of torch.profiler",
    opens="labcode.reports.kineto.report:open_trace",
    versions="labcode.reports.kineto.schema:READ",
    ranges="annotation",
    stats="labcode.analysis.stats.kineto:SHELF",
    export=None,
    diagnose="labcode.verbs.diagnose.files:run_on_timeline",
    rules=("kineto", "timelines"),
    compare="labcode.verbs.compare.pairs:run",
    timeline="labcode.verbs.timeline:draw_timeline",
    flame="labcode.verbs.flame:TRACES",
    roofline=None,
    scrub="labcode.capture.torch_profile:scrub_file",
    facts="labcode.reports.facts:TRACES",
    tables="labcode.analysis.rules.kineto:TraceTables",
    report="labcode.verbs.report.traces:PART",
)
