"""The experiment ``nsys/multi_gpu``."""
