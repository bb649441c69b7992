"""Experiments on advanced questions to timelines."""
