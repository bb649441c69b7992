"""The experiment ``scaling/tensor_parallel``."""
