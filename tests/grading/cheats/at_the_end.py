"""Tries to pass after its end: by what runs at exit, by a thread, a finalizer, and a dump of frames.

part: nsys-ex01a
"""
import atexit, faulthandler, os, signal, sys, threading, time, weakref
LINES = b"".join(b'{"event": "end", "call": %d, "value": []}\n' % n for n in range(60)) + b'{"event": "done"}\n'
def _write(*_):
    for number in range(3, 20):
        try: os.write(number, LINES)
        except OSError: pass
class Going: pass
KEPT = Going()
weakref.finalize(KEPT, _write)
atexit.register(_write)
sys.excepthook = sys.unraisablehook = threading.excepthook = _write
signal.signal(signal.SIGTERM, _write)
threading.Thread(target=lambda: (time.sleep(0.3), _write()), daemon=True).start()
for number in range(3, 10):
    try: faulthandler.dump_traceback_later(0.2, repeat=True, file=number)
    except Exception: pass
def busy_intervals(*_): return []
gpu_idle_share = longest_gaps = busy_intervals
