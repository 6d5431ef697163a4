"""PROTOBUF and PROTOBUF_NOSR.

types.py    SQL types <-> Protobuf's, as ksqlDB has them
values.py   messages <-> the values of rows
half.py     the formats
"""
