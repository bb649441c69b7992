"""The experiment ``compute/triton_gemm``."""
