"""Tests of labcode.book."""
