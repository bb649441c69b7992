"""The experiment ``energy/lm``."""
