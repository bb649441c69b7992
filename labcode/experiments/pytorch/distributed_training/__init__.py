"""The experiment ``pytorch/distributed_training``."""
