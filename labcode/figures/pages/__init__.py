"""Pages of their own with their scripts: interactive timelines, flame graphs."""
