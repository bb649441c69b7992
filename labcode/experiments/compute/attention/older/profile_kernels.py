"""`labcode.workloads.attention profile` by the name and with the flags that older guides give it."""

from labcode.experiments.compute.attention.older.flags import main_of
from labcode.experiments.shared import common

PROGRAM = "profile_kernels"

if __name__ == "__main__":
    common.run(PROGRAM, main_of("profile"))
