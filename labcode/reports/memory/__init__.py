"""Histories of PyTorch's allocator: a file in, tables out."""
