"""The experiment ``pytorch/profiler_overhead``."""
