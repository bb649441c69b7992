"""The exercises of the part on Nsight Systems."""

from labcode.exercises.nsys.entries import EXERCISES

__all__ = ["EXERCISES"]
