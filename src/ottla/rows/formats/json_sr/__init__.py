"""JSON_SR: JSON with the id of its JSON Schema in front.

types.py                 SQL types <-> JSON Schema types
json_schema_format.py    the format
"""
