"""From a workload to files in a capture set: run under a tool, trim, scrub, hash, file."""
