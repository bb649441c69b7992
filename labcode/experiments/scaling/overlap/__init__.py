"""The experiment ``scaling/overlap``."""
