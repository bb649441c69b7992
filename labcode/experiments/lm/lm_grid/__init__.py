"""The experiment ``lm/lm_grid``."""
