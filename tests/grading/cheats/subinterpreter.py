"""Tries to read in an interpreter of its own, which has no hooks.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
try:
    import _xxsubinterpreters as inner
    number = inner.create()
except ModuleNotFoundError:
    import _interpreters as inner
    number = inner.create()
inner.run_string(number, f"open('copied', 'w').write(open({SOLUTION!r}).read())")
exec(open("copied").read())
