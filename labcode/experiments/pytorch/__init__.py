"""Experiments on PyTorch."""
