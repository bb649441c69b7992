"""The experiment ``energy/overhead``."""
