"""Grades part b on a GPU: sums of columns in; right sums, time, then the sectors loaded, out."""

from pathlib import Path

from solutions.compute._shared import Counted, Kernel

SECTOR_BYTES = 32
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

KERNEL = Kernel(
    Path(__file__).with_name("b_harness.cu"),
    0.25,
    Counted(
        (_SECTORS,),
        lambda found, record: found[_SECTORS] * SECTOR_BYTES / (4 * record["elements"]),
        "bytes of the sectors loaded ÷ bytes of the matrix",
        1.2,
    ),
    operations=32768,  # an addition for each row of the matrix that is timed
)
grade, beforehand = KERNEL.grade, KERNEL.beforehand
