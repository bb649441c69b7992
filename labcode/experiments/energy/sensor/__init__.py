"""The experiment ``energy/sensor``."""
