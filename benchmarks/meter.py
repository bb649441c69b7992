"""``python -m benchmarks.meter``: what the power meter costs a training loop, as a table and a record."""

import json
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import run
from labcode.errors import LabError, ToolError
from labcode.experiments.energy.overhead import program as overhead
from labcode.meter import open_gpus
from labcode.outputs import whole
from labcode.show import terminal
from labcode.show.terminal import console


def main(
    seconds: Annotated[float, typer.Option("--seconds", help="How long to measure.")] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> None:
    """Time training loops step by step beside the power meter: what a reading costs them."""
    if not 2 <= seconds <= 3600:
        raise LabError(f"--seconds {seconds:g}: between 2 and 3600")
    try:
        import torch
    except ImportError:
        raise ToolError("the training loop needs PyTorch; pip install torch") from None
    if not torch.cuda.is_available():
        raise ToolError("PyTorch sees no GPU; run on a GPU machine")
    record = overhead.measure(torch, open_gpus(), seconds)
    columns = ("step (ms)", "readings", "a reading (µs)", "delays by (µs)", "overhead", "95 %")
    table = terminal.table("loop", right=columns)
    for row in record["rows"]:
        table.add_row(
            str(row["loop"]),
            f"{row['step_ms']:.4f}",
            str(row["readings"]),
            f"{row['reading_us']:,.0f}",
            f"{row['cost_us']:,.0f}",
            f"{row['overhead']:+.2%}",
            f"{row['overhead_low']:+.2%} … {row['overhead_high']:+.2%}",
        )
    screen = console()
    screen.print(table)
    screen.print(f"{record['gpus']} GPUs read every {overhead.PERIOD_S * 1e3:g} ms", highlight=False)
    if json_file is not None:
        with whole(json_file) as part:
            part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
