"""The unified profiler: a user's script in; launchers' and profilers' commands, run, and captures out."""
