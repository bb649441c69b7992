"""The experiment ``pytorch/bottleneck_ladder``."""
