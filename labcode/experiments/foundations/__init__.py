"""Experiments on measuring."""
