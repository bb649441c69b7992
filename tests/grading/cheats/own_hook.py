"""Tries to change the guard's variables from a hook of its own, which is told what the guard itself does.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import sys
def told(event, arguments):
    if event == "os.listdir":
        frame = sys._getframe()
        while frame is not None:
            if "_key" in frame.f_globals and "_judge" in frame.f_globals:
                frame.f_globals["_key"] = lambda *_: None
            frame = frame.f_back
sys.addaudithook(told)
try: open("nothing/here")
except OSError: pass
exec(open(SOLUTION).read())
