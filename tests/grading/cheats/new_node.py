"""Tries to make a file in the lab with a call that no guard sees.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
os.mknod(f"{ROOT}/labcode/sitecustomize.py", 0o100644)
