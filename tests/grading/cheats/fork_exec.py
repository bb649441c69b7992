"""Tries to start a program with the function below subprocess, which tells no guard."""

# part: nsys-ex04b
import _posixsubprocess
import os
import sys

MORE = [True] if sys.version_info < (3, 14) else []

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
reads, writes = os.pipe()
error = os.pipe()
words = [b"/bin/cat", os.fsencode(SOLUTION)]
given = [words, [words[0]], True, (writes,), None, None, -1, -1, -1, writes, -1, -1, *error]
_posixsubprocess.fork_exec(*given, True, False, -1, None, None, None, -1, None, *MORE)
os.close(writes)
exec(os.fdopen(reads).read())
