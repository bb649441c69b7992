"""Exports of Nsight Systems: a file in, tables out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="nsys",
    what="a capture of Nsight Systems",
    opens="labcode.reports.nsys.report:open_report",
    versions="labcode.reports.nsys.schema:READ",
    ranges="NVTX range",
    stats="labcode.analysis.stats.nsys.reports:SHELF",
    export="labcode.reports.nsys.export:export_all",
    diagnose="labcode.verbs.diagnose.files:run_on_timeline",
    rules=("timelines", "counters"),
    compare="labcode.verbs.compare.pairs:run",
    timeline="labcode.verbs.timeline:draw_timeline",
    flame="labcode.verbs.flame:CAPTURES",
    roofline=None,
    scrub="labcode.capture.scrub:scrub_file",
    facts="labcode.reports.facts:CAPTURES",
    tables="labcode.analysis.rules.tables:Tables",
    report="labcode.verbs.report.captures:PART",
)
