"""Connect: connectors in Kafka Connect's model, run as Spark queries.

A connector is written against `api` and `data`, configured as in Kafka Connect, and served by a
worker whose REST API, topics and record formats are Kafka's. The three files to read first:

    api.py                     what a connector's author implements: connectors and tasks
    transformation_chain.py    the path of every record: converters, transforms, error policy
    run/connector_runner.py    how a connector runs

    config.py plugins.py       ConfigDef; plugins by our names or Kafka's
    converters/ transforms/    the converters and single message transforms in the box
    connectors/                the connectors in the box
    run/                       what runs connectors and tasks: the only part that imports pyspark
    herder/ rest/              which worker runs what; Kafka Connect's REST API

Connect imports neither SQL nor Streams, and no broker code: it talks to brokers as a client.
"""
