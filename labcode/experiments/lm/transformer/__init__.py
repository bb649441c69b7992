"""The experiment ``lm/transformer``."""
