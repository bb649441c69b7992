"""Tries to hand in a symbolic link to the folder of the solution."""

# part: nsys-ex04b
