"""The language: from text to statements, with no Spark and no catalog in sight."""
