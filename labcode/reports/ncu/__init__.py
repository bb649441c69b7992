"""Reports of Nsight Compute: a file in, launches with their metrics out."""
