"""Power logs of `labcode energy` and `labcode.meter`: a file in, tables out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="power",
    what="a power log",
    opens="labcode.reports.power.log:open_log",
    versions="labcode.reports.power.schema:READ",
    stats="labcode.analysis.stats.power:SHELF",
    export=None,
    diagnose="labcode.verbs.diagnose.files:run_on_log",
    rules=("power",),
    compare="labcode.verbs.compare.pairs:run",
    timeline="labcode.verbs.timeline:draw_power",
    flame=None,
    roofline=None,
    scrub=None,
    facts="labcode.reports.facts:LOGS",
    tables=None,
    report="labcode.verbs.report.logs:PART",
)
