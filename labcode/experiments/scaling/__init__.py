"""Experiments on many GPUs."""
