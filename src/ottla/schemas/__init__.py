"""Schemas in Avro, JSON Schema and Protobuf: parsed, normalised, compared. No I/O."""
