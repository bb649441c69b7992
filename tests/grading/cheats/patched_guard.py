"""Tries to replace a helper of the guard's module.

part: nsys-ex01a
"""
import os, labcode
root = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
F = root + "/solutions/nsys/ex01_timeline_basics/a_idle.py"
import sys
guard = sys.modules["labcode.grading.guard"]
guard._key = lambda *_: None
guard._inside = lambda *_: True
exec(open(F).read())
