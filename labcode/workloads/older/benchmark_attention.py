"""`labcode.workloads.attention benchmark` by the name and with the flags that older guides give it."""

from labcode.workloads.older.flags import main_of
from labcode.workloads.shared import common

PROGRAM = "benchmark_attention"

if __name__ == "__main__":
    common.run(PROGRAM, main_of("benchmark"))
