"""Tries to open the solution by a path that says it is a number.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import io
class Path:
    __class__ = property(lambda self: int)
    def __fspath__(self): return SOLUTION
exec(io.FileIO(Path()).read())
