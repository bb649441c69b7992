"""The experiment ``scaling/llama_sharded``."""
