"""Schemas in Avro, JSON Schema and Protobuf: parsed, normalized, compared. No I/O.

The three languages behind one interface, without knowing a registry: the registry, the serdes and
the formats of SQL use this room. A schema is input from a stranger, so every parser and comparison
counts its steps (limits.py).

    schema_types.py    parse, normalize: text -> ParsedSchema, in any language
    compatibility/     may a new version follow the old ones? one checker for each language
    framing.py         Confluent's wire format: how a record names its schema
    avro/, json_schema/, protobuf/   the languages, and codecs of Python values
    models/            dataclasses and Pydantic models as schemas

It imports no other room but `errors`, and nothing here reads a file or a socket.
"""
