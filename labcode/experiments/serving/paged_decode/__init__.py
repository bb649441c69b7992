"""The experiment ``serving/paged_decode``."""
