"""From one GPU to many: sweeps of collectives, data-parallel training, a tensor-parallel layer."""
