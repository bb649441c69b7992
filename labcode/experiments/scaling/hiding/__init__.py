"""The experiment ``scaling/hiding``."""
