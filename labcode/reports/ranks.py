"""Folders with a report for each rank, which several commands take as one run."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="ranks",
    what="a folder of reports, one per rank",
    opens="labcode.reports.nsys.report:open_report",
    versions=None,
    stats="labcode.analysis.stats.ranks:SHELF",
    export=None,
    diagnose="labcode.verbs.diagnose.files:run_on_ranks",
    rules=("ranks",),
    compare="labcode.verbs.compare.pairs:run",
    timeline="labcode.verbs.timeline:draw_ranks",
    flame=None,
    roofline=None,
    scrub=None,
    facts=None,
    tables=None,
    report="labcode.verbs.report.folder:folders",
)
