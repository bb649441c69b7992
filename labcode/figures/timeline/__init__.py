"""Timelines: from tables of operations to rows, pictures and traces."""
