"""Tries to let a process of multiprocessing read the solution."""

# part: nsys-ex04b
import multiprocessing
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
if __name__ != "__mp_main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        exec(pool.map(eval, [f"open({SOLUTION!r}).read()"])[0])
