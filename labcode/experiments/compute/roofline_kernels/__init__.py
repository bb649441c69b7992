"""The experiment ``compute/roofline_kernels``."""
