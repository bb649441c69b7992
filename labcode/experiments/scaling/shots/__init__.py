"""The experiment ``scaling/shots``."""
