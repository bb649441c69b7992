"""What the programs share: command line, records, ranges, recording."""
