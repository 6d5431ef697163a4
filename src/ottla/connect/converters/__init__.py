"""Converters: the bytes of a topic <-> values with schemas.

    converter.py             Converter and HeaderConverter, the base classes
    json.py                  JsonConverter, the default, with json_encoders.py and json_decoders.py
    registry_converter.py    what the Avro, JSON Schema and Protobuf converters share

The converters with a schema registry follow Confluent's mapping of types, property by property:
<language>_from_connect.py writes schemas, connect_from_<language>.py reads them, and the encoders
and decoders are compiled once per schema. A converter does no I/O except to the registry.
"""
