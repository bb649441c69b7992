"""The experiment ``energy/products``."""
