"""`labcode roofline`: a report of Nsight Compute and a file name in; its launches under the roofs out."""

from pathlib import Path
from typing import TYPE_CHECKING

from labcode.analysis.kernel.roofline import counter_ceilings, datasheet_ceilings, measured_ceilings
from labcode.errors import LabError
from labcode.figures.charts.roofline import roofline
from labcode.figures.style import render
from labcode.outputs import whole
from labcode.reports import expect, open_launches

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_roofline(
    file: Path,
    output: Path,
    *,
    kernel: str | None = None,
    launch: int | None = None,
    precision: str | None = None,
    ceilings: Path | None = None,
    datasheet: bool = False,
    mode: str = "light",
) -> Path:
    """Write the roofline of a report to ``output`` (.svg, .png or .pdf) and return its path.

    ``ceilings`` names a JSON of measured roofs, ``datasheet`` adds the vendor's. Raises `LabError` for
    another suffix, a selection that matches nothing, or a GPU without a datasheet in
    `labcode.hardware.specs`.
    """
    form = output.suffix.removeprefix(".")
    if form not in ("svg", "png", "pdf"):
        raise LabError(f"{output}: name the picture X.svg, X.png or X.pdf")
    expect(file, "roofline")
    with whole(output, reads=[file] if ceilings is None else [file, ceilings]) as part:
        report = open_launches(file).select(kernel, launch)
        roofs = counter_ceilings(report.list[0])
        if datasheet:
            device = str(report.list[0].device().get("display_name", ""))
            sheet = datasheet_ceilings(device)
            if not sheet:
                raise LabError(
                    f"{file}: no datasheet of {device or 'this GPU'} is listed; leave out --datasheet"
                )
            roofs += sheet
        if ceilings is not None:
            roofs += measured_ceilings(ceilings)

        def draw() -> "Figure":
            return roofline(report, precision=precision, ceilings=roofs)

        part.write_bytes(render(draw, mode, form))  # type: ignore[arg-type]
    return output
