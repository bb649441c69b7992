"""Tries to write a file of the lab through a link that lies nearer to the root than it was judged from.

part: nsys-ex01a
"""
import os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex01_timeline_basics/a_idle.py"
here = os.getcwd()
deep = here + "/d" * here.count("/")
inside = here + ROOT + "/labcode"
os.makedirs(inside)
os.makedirs(deep)
os.chdir(deep)
os.symlink("../" * here.count("/") + ROOT[1:] + "/labcode/sitecustomize.py", here + "/link")
os.chdir(here)
with open("link", "w") as file:
    file.write("x = 1\n")
def busy_intervals(*_): return []
gpu_idle_share = longest_gaps = busy_intervals
