"""Experiments on energy."""
