"""JSON_SR: JSON behind the id of its JSON Schema.

types.py   SQL types <-> JSON Schema's, as ksqlDB has them
half.py    the format
"""
