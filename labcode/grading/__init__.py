"""The exercises: catalogue, starters cut from solutions, grader, progress."""
