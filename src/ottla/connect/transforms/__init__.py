"""Single message transforms: Kafka's own, with Kafka's settings and error messages.

    transform.py     Transform, the base class; KeyOrValueTransform for Name$Key and Name$Value
    field_path.py    paths to nested fields (KIP-821)
    cast.py          the largest one, and a good example: a plan per schema, computed once

A transform changes one record at a time, knows neither topics nor offsets, and does no I/O.
"""
