"""Functions from tables to matplotlib figures."""
