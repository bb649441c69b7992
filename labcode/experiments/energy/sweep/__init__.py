"""The experiment ``energy/sweep``."""
