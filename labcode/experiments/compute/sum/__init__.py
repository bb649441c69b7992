"""The experiment ``compute/sum``."""
