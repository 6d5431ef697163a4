"""The verbs of `ottla`, one module each."""
