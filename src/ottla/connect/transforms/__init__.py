"""Transforms: what may happen to a record between a task and a topic, one at a time."""
