"""What the power meter costs a training loop: seconds to measure in; a table and a JSON record out."""

import json
from pathlib import Path

from rich.console import Console

from labcode.errors import LabError, ToolError
from labcode.meter import open_gpus
from labcode.outputs import whole
from labcode.show import terminal
from labcode.workloads.energy import overhead


def main(seconds: float, json_file: Path | None, console: Console) -> int:
    """Measure for so many seconds, print the table, write the record. Needs PyTorch and a GPU."""
    if not 2 <= seconds <= 3600:
        raise LabError(f"bench meter --seconds {seconds:g}: between 2 and 3600")
    try:
        import torch
    except ImportError:
        raise ToolError("bench meter: the training loop needs PyTorch; pip install torch") from None
    if not torch.cuda.is_available():
        raise ToolError("bench meter: PyTorch sees no GPU; run on a GPU machine")
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
    console.print(table)
    console.print(f"{record['gpus']} GPUs read every {overhead.PERIOD_S * 1e3:g} ms", highlight=False)
    if json_file is not None:
        with whole(json_file) as part:
            part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
