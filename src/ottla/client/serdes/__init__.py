"""Serdes whose schemas are in a schema registry (Avro, JsonSchema, Protobuf), and List."""
