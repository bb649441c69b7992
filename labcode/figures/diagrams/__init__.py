"""Diagrams that show how something works; nothing in them is measured."""
