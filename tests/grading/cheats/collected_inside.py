"""Tries to change what the guard uses while the guard is interrupted by the collection of garbage.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import gc, sys, time
kept = []
def told(phase, _):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith("guard.py") and "_judge" in frame.f_globals and frame.f_code.co_name != "refuse":
            frame.f_globals["_key"] = lambda *_: None
            kept.append(1)
        frame = frame.f_back
gc.callbacks.append(told)
gc.set_threshold(1)
end = time.time() + 2
while not kept and time.time() < end:
    try: open("nothing/here")
    except OSError: pass
gc.set_threshold(700)
exec(open(SOLUTION).read())
