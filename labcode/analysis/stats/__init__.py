"""The reports of `labcode stats`: one driver, one writer, a module a kind of file."""
