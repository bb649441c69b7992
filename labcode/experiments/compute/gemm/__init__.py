"""The experiment ``compute/gemm``."""
