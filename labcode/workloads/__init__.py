"""The programs that get profiled, each runnable as ``python -m labcode.workloads.NAME``."""
