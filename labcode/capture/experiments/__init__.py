"""The experiments of the book, described."""
