"""The experiment ``compute/flex_attention``."""
