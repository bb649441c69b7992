"""CUDA programs in ``cuda/``: built for this machine's GPU and cached."""
