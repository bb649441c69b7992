"""Tries to read the solution with a library that opens files itself."""

# part: nsys-ex04b
import os
import readline

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
readline.read_history_file(SOLUTION)
lines = [readline.get_history_item(number) for number in range(1, readline.get_current_history_length() + 1)]
exec("\n".join(line or "" for line in lines))
