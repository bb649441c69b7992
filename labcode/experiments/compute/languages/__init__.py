"""The experiment ``compute/languages``."""
