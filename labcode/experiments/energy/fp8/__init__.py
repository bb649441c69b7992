"""The experiment ``energy/fp8``."""
