"""The experiment ``compute/fp8_training``."""
