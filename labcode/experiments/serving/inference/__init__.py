"""The experiment ``serving/inference``."""
