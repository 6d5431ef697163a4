"""The broker: everything between a request's message and the logs, the coordinators, the cluster.

    broker.py          creates all parts and connects them; starts and stops them
    dispatch.py        from API key to handler: features, authorization, quotas, then the handler
    handlers/<api>.py  one module for each API; opens with its key, its versions and its KIPs
    parts.py           what a handler may use of the broker

The other modules are the parts. Some drive state machines that do no I/O (`ottla.coordinator`,
`ottla.replica`): they append what was decided, and answer when it is committed. Others keep limits
(quotas, fetch sessions), or speak to other brokers. `share/` is for share groups, `authorization/`
says which rights each API needs, `metrics/` counts.

A part takes what it needs in its constructor: the partitions, the metadata, a clock. It never sees
the broker, nor `parts.py`; only handlers and metrics do. Two contracts of import-linter check that,
and there is no import cycle here, not even one for types. What waits is a promise (`promise.py`) or
a delayed operation (`delayed_operation.py`). All state belongs to the thread of the event loop.

This room does not know sockets: `ottla.net` calls it by way of a protocol. Clients, the registry
and everything on Spark reach it over the wire only.
"""
