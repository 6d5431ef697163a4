"""Avro: names, defaults, text."""
