"""The experiment ``compute/attention``."""
