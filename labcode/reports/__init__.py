"""Readers: one file format in, documented tables out."""
