"""The experiment ``energy/cores``."""
