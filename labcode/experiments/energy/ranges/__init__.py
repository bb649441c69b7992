"""The experiment ``energy/ranges``."""
