"""The experiment ``compute/compute_metrics``."""
