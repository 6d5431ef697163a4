"""AVRO: Avro payloads <-> Arrow columns, with the schemas of a registry.

readers.py, writers.py   the hot loops over payloads and rows; compiled by mypyc (setup.py)
payload_reader.py        chooses the readers for a writer's schema and the columns
payload_writer.py        chooses the writers for the columns and a schema
arrays.py                builds Arrow arrays from what the readers have collected
"""
