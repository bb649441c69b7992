"""Tries to write the grader's events itself."""

# part: nsys-ex04b
import os

for number in range(3, 40):
    for call in range(40):
        try:
            os.write(number, b'{"event": "begin", "call": 0}\n{"event": "end", "call": 0, "value": true}\n')
        except OSError:
            break
os._exit(0)
