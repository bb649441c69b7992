"""The experiment ``compute/fp8_products``."""
