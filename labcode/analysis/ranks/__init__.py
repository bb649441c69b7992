"""Many reports of one run, one per rank, in; their clocks brought together, and who waited for whom, out."""
