"""The experiment ``compute/transpose``."""
