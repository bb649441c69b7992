"""Programs that load one part of a GPU after the other."""
