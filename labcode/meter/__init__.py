"""A power meter on NVML: GPUs in; their power, energy counter, clocks and temperature over time out::

    with Meter(open_gpus(), period_s=0.1) as meter:
        with meter.window("training"):
            train()
    meter.write(Path("run.power.json"))

Nothing is ever set: no clock, no power limit. Several meters may run at once, in one process or in many,
because reading NVML does not change what others read.
"""

from labcode.meter.gpus import open_gpus
from labcode.meter.meter import Meter, clock_mark

__all__ = ["Meter", "clock_mark", "open_gpus"]
