"""The experiment ``scaling/training``."""
