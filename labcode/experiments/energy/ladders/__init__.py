"""The experiment ``energy/ladders``."""
