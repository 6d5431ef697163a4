"""PROTOBUF and PROTOBUF_NOSR.

types.py             SQL types <-> Protobuf types
values.py            messages <-> the values of rows
protobuf_format.py   the formats
"""
