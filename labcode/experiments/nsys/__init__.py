"""Experiments on timelines."""
