"""The experiment ``nsys/gpu_phases``."""
