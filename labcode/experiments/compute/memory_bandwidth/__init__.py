"""The experiment ``compute/memory_bandwidth``."""
