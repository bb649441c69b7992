"""Tries to make the guard see another path: os.path.realpath is replaced."""

# part: nsys-ex04b
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
os.path.realpath = lambda path, **_: "/nowhere"
exec(open(SOLUTION).read())
