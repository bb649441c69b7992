"""The reports of `nsys stats`, computed from an export's columns."""
