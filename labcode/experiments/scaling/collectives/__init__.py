"""The experiment ``scaling/collectives``."""
