"""The experiment ``energy/matmul``."""
