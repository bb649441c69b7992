"""The experiment ``nsys/kernel_overlap``."""
