"""Benchmarks of the lab itself: the kernels against ceilings and libraries."""
