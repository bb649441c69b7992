"""Tries to change the rights of a file of the lab by the number of the open file.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
number = os.open(f"{ROOT}/labcode/errors.py", os.O_RDONLY)
os.fchmod(number, 0o600)
def busy_intervals(*_): return []
gpu_idle_share = longest_gaps = busy_intervals
