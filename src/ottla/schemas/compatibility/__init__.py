"""What a new version of a schema may change: one checker for each language."""
