"""Tries to change what the guard uses in the handler of a signal.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import signal, time
kept = []
def handle(_, frame):
    while frame is not None:
        if frame.f_code.co_filename.endswith("guard.py") and "_key" in frame.f_globals:
            frame.f_globals["_key"] = lambda *_: None
            kept.append(1)
        frame = frame.f_back
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
end = time.time() + 2
while not kept and time.time() < end:
    try: open("nothing/here")
    except OSError: pass
signal.setitimer(signal.ITIMER_REAL, 0)
exec(open(SOLUTION).read())
