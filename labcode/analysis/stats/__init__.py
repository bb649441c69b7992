"""The reports of `labcode stats`: one driver, one writer, a module per kind of file."""
