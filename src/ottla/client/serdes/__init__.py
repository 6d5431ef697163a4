"""Serdes with a schema registry (Avro, JsonSchema, Protobuf), and List."""
