"""The experiment ``pytorch/memory_leak``."""
