"""The experiment ``lm/attention_sweep``."""
