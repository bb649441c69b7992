"""The experiment ``energy/kernels``."""
