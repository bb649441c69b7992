"""Tries to change what the guard uses by an event of its own, in which a number compares itself.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import sys
class Number:
    def __ne__(self, other):
        frame = sys._getframe()
        while frame is not None:
            if "_key" in frame.f_globals and "_judge" in frame.f_globals:
                frame.f_globals["_key"] = lambda *_: None
            frame = frame.f_back
        return False
sys.audit("os.kill", Number(), 0)
exec(open(SOLUTION).read())
