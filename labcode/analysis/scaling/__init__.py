"""Scaling: times on several numbers of GPUs in; efficiency, laws, models and predictions out."""
