"""A query and a catalog -> stages: pure data, with no Spark and no broker in sight."""
