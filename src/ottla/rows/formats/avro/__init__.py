"""AVRO: Avro payloads <-> Arrow columns, by the schemas of a registry.

readers.py, writers.py   walk over payloads, and over rows; compiled by mypyc (setup.py)
reading.py               which readers a writer's schema and some columns need
writing.py               which writers some columns and a schema need
arrays.py                what readers have found, as Arrow's arrays
"""
