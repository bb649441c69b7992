"""A user's program in; what was recorded of it, and what there is to say of that, out: `labcode profile`, the
unified profiler with its launchers, `labcode record`, and `labcode energy`.
"""
