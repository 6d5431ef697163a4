"""The verbs of `ottla`: one module for each."""
