"""The experiment ``compute/attention_backward``."""
