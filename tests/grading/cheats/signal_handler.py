"""Tries to read in the handler of a signal that comes while the guard looks.

part: nsys-ex01a
"""
import os, labcode
root = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
F = root + "/solutions/nsys/ex01_timeline_basics/a_idle.py"
import signal, time
kept = []
def handle(*_):
    if not kept:
        try: kept.append(open(F).read())
        except PermissionError: pass
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
end = time.time() + 2
while not kept and time.time() < end:
    try: open("nothing/here")
    except OSError: pass
signal.setitimer(signal.ITIMER_REAL, 0)
exec(kept[0])
