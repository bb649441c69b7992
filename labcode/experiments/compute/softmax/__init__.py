"""The experiment ``compute/softmax``."""
