"""The experiment ``nsys/memory_timeline``."""
