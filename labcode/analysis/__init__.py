"""Pure functions from tables to tables."""
