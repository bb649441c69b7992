"""What is compared, as it was asked for: two files, or groups of runs and their picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from labcode.analysis.compare import interval
from labcode.errors import LabError
from labcode.verbs.compare import many, pairs


def run(
    asked: many.Asked,
    *,
    fail_above: float | None = None,
    fmt: str = "table",
    gates: Sequence[str] = (),
    only: Sequence[str] = (),
    kernel: str | None = None,
    scheduler: str | None = None,
    window: str | None = None,
    undecided_exit: int | None = None,
    plot: Path | None = None,
    output: TextIO,
) -> int:
    """Compare what is ``asked``, write what was found to ``output`` and ``plot``; the exit code.

    See `labcode.verbs.compare.pairs.run` for two files and `labcode.verbs.compare.many` for more.
    """
    if not asked.many:
        return pairs.run(
            *asked.files,
            fail_above=fail_above,
            fmt=fmt,
            gates=gates,
            only=only,
            kernel=kernel,
            scheduler=scheduler,
            window=window,
            undecided_exit=undecided_exit,
            output=output,
        )
    if kernel is not None:
        raise LabError(
            "compare: --kernel chooses launches of two .ncu-rep files; use --only kernels and --gate"
        )
    interval.check_exit(undecided_exit)
    found = many.compare(asked, scheduler=scheduler, limits=interval.limits_of(fail_above))
    code = many.show(
        found,
        fail_above=fail_above,
        fmt=fmt,
        gates=gates,
        only=only,
        undecided_exit=undecided_exit,
        output=output,
    )
    if plot is not None:
        from labcode.figures.charts import ensemble as charts

        charts.write_over(found, plot, kinds=pairs.chosen(only) if only else (), reads=asked.files)
    return code
