"""Converters: bytes of a topic <-> values with schemas."""
