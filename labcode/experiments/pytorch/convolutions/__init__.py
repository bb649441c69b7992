"""The experiment ``pytorch/convolutions``."""
