"""`labcode compare`: files of runs in; what changed, as text or a picture, and an exit code out."""
