"""Histories of PyTorch's allocator: a file in, tables out."""

from labcode.reports.common import Format

FORMAT = Format(
    kind="memory",
    what="a history of the allocator",
    opens="labcode.reports.memory.history:open_history",
    versions="labcode.reports.memory.history:READ",
    stats="labcode.analysis.stats.memory:SHELF",
    export=None,
    diagnose=None,
    rules=(),
    compare=None,
    timeline="labcode.verbs.timeline:draw_memory",
    flame=None,
    roofline=None,
    scrub="labcode.capture.torch_profile:scrub_file",
    facts="labcode.reports.facts:HISTORIES",
    tables=None,
    report="labcode.verbs.report.histories:PART",
)
