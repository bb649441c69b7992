"""Charts: bars, curves, rooflines, memory over time."""
