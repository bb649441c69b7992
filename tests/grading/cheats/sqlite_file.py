"""Tries to write a file of the lab with a library that opens files itself.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
import sqlite3
base = sqlite3.connect(":memory:")
base.execute("create table a(b)")
base.execute(f"vacuum into '{ROOT}/labcode/sitecustomize.db'")
def longest_idle(*_): return 0
