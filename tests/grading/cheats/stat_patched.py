"""Tries to make the guard see another file: os.stat, os.lstat and os.readlink are replaced."""

# part: nsys-ex04b
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
other = os.stat("/")
os.stat = os.lstat = lambda *_, **__: other
os.readlink = lambda *_, **__: "/nowhere"
exec(open(SOLUTION).read())
