"""Avro: schemas, defaults, canonical text, binary and JSON encodings."""
