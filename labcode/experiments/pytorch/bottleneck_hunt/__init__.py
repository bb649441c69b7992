"""The experiment ``pytorch/bottleneck_hunt``."""
