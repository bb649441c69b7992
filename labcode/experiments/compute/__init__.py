"""Experiments on kernels."""
