"""Connect: connectors in Kafka Connect's model.

    data       schemas, structs and records, as Kafka Connect has them
    api        what a connector's author writes: connectors and tasks
    config     ConfigDef: names, types, defaults, checks
    plugins    where classes are found, by our names or by Kafka's
    tolerance  the chain: bytes <-> records, through converters and transforms

Nothing here knows Spark or does I/O; `run/` does.
"""
