"""Serving the language model: prompts arrive, tokens go out; each way to do it faster apart."""
