"""The experiment ``compute/stream_k``."""
