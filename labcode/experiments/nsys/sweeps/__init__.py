"""The experiment ``nsys/sweeps``."""
