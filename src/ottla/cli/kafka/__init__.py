"""Kafka's own tools: the same names, flags, output and exit codes."""
