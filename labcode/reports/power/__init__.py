"""Power logs of `labcode energy` and `labcode.meter`: a file in, tables out."""
