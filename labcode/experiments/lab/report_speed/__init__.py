"""The experiment ``lab/report_speed``."""
