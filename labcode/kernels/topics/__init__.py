"""The kernels of each folder of ``cuda/``: cost models, steps and their reasons, references (``KERNELS``)."""
