"""The experiment ``advanced/launch_sites``."""
