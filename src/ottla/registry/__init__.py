"""The schema registry: subjects, versions, compatibility, over Confluent's REST API.

Schemas live in the topic `_schemas` of any Kafka cluster. Any number of instances may serve the
same topic: each follows it, and appends by compare-and-set (decision 0033).

    kafka_schema_registry.py   one instance: the log, its state, what requests do with them
    schema_log.py, topic.py    the copy of `_schemas`, and appends that fail if others were first
    decisions/                 state and request -> records and answer; no I/O
    rest/                      Confluent's paths; server.py has the port

The registry speaks to brokers over the wire only: it imports no broker, replica, storage or
cluster.
"""
