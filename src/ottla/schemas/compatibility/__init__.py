"""Which changes a new version of a schema may make: one checker for each language."""
