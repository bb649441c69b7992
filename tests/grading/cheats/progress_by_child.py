"""Tries to let a child write the progress file."""

# part: nsys-ex04b
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
if os.fork() == 0:
    os.setsid()
    for place in (ROOT, os.path.dirname(__file__)):
        try:
            open(f"{place}/.exercises-progress.json", "w").write('{"schema": 1, "parts": {}}')
        except OSError:
            pass
    os._exit(0)
