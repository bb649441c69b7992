"""Builders that the tests of every folder share."""
