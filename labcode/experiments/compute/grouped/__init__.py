"""The experiment ``compute/grouped``."""
