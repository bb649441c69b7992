"""The experiment ``compute/kernel_bench``."""
