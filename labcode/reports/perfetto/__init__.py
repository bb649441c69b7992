"""Traces in Perfetto's own format: a ``.pftrace`` in, the tables of a trace of `torch.profiler` out."""
