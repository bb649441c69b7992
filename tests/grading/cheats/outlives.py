"""Tries to go on when its grading is over."""

# part: nsys-ex04b
import os

if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve("/bin/sleep", ["sleep", "98765"], {})
