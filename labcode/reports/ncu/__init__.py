"""Reports of Nsight Compute: a file in, launches with their metrics out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="ncu",
    what="a report of Nsight Compute",
    opens="labcode.reports.ncu.report:open_report",
    versions="labcode.reports.ncu.open:READ",
    stats="labcode.analysis.stats.ncu:SHELF",
    export=None,
    diagnose="labcode.verbs.diagnose.files:run_on_launches",
    rules=("ncu",),
    compare="labcode.verbs.compare.pairs:run",
    timeline=None,
    flame=None,
    roofline="labcode.verbs.roofline:write_roofline",
    scrub="labcode.capture.ncu_scrub:scrub_file",
    facts="labcode.reports.facts:LAUNCHES",
    tables=None,
    report="labcode.verbs.report.launches:PART",
    several=True,
)
