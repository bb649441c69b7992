"""The experiment ``compute/rmsnorm``."""
