"""Tries to hand in a symbolic link to the solution."""

# part: nsys-ex04b
