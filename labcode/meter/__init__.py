"""A power meter on NVML: GPUs in; their power, energy counter, clocks and temperature over time out::

    with Meter(open_gpus(), period_s=0.1) as meter:
        with meter.window("training"):
            train()
    meter.write(Path("run.power.json"))

Nothing is ever set: no clock, no power limit. Several meters may run at once, of one process or of many, for
reading NVML changes nothing that another one reads.
"""

from labcode.meter.gpus import open_gpus
from labcode.meter.meter import Meter, clock_mark

__all__ = ["Meter", "clock_mark", "open_gpus"]
