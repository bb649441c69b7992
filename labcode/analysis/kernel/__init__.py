"""One kernel: occupancy, roofline, SASS, stalls, the bucket its name belongs to."""
