"""The experiment ``nsys/timeline_basics``."""
