"""The experiment ``compute/optimization_loop``."""
