"""Traces of `torch.profiler`: a file or a folder of ranks in, tables out."""
