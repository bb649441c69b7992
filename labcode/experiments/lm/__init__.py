"""Experiments on language models."""
