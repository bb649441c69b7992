"""The experiment ``lm/llama``."""
