"""Experiments on serving."""
