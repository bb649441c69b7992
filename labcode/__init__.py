"""The Profiling Lab: capture, read, analyze and draw GPU profiles, and grade the book's exercises."""

__version__ = "0.1.0"
