"""The experiment ``foundations/measuring``."""
