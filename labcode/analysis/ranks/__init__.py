"""Many reports of one run, one a rank, in; their clocks brought together, and who waited for whom, out."""
