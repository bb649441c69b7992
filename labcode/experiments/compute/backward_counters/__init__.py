"""The experiment ``compute/backward_counters``."""
