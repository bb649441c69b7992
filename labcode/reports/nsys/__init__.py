"""Exports of Nsight Systems: a file in, tables out."""
