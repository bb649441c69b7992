"""The experiment ``advanced/input_pipeline``."""
