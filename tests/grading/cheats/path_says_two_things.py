"""Tries to remove a file of the lab by a path that says something else when it is asked again.

part: nsys-ex01a
"""

import os

import labcode

ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
TARGET = ROOT + "/exercises/nsys/ex01_timeline_basics/a_idle.py"


class Twice:
    asked = 0

    def __fspath__(self):
        self.asked += 1
        return TARGET if self.asked == 1 else "here"


try:
    os.remove(Twice())
except OSError:
    pass
