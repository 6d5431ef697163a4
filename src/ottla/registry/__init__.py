"""The schema registry: subjects, versions, and what one version may change of another."""
