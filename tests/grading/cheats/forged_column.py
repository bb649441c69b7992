"""Tries to make the grader fail at a column whose type it cannot make.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import sys
frame = sys._getframe()
while "tell" not in frame.f_locals:
    frame = frame.f_back
tell = frame.f_locals["tell"]
tell(event="loaded")
tell(event="begin", call=0)
tell(event="end", call=0, value={"$": "frame", "columns": [["a", "int64", [10**30]]]})
