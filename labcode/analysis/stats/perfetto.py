"""The reports on traces in Perfetto's format: those on traces of torch.profiler that need no second one."""

from dataclasses import replace

from labcode.analysis.stats import kineto
from labcode.reports.perfetto.report import open_pftrace

_WITHOUT = "op_diff"

SHELF = replace(
    kineto.SHELF,
    of=" of traces in Perfetto's format",
    reports={name: made for name, made in kineto.REPORTS.items() if name != _WITHOUT},
    every=tuple(name for name in kineto.REPORTS if name != _WITHOUT),
    open=open_pftrace,
    beside=None,
    uncut=(),
)
