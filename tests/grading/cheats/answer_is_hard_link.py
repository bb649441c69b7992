"""Tries to hand in a hard link to the solution."""

# part: nsys-ex04b
