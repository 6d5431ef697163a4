"""The request handlers: one module per API, named like it.

A handler is `handle(ctx, request)`. It is a plain function: it does its ordered work (an append, a
state change) at once and returns the response, or an awaitable if it has to wait for the rest.
Nothing else can run between two steps of the ordered work, because there is no await in it. Errors
that concern the whole request are raised as `KafkaError`; errors of a topic or a partition are
fields of the response.

The docstring of each module opens with the API's key, its versions and its KIPs.

- `produce.py`: appends; holds the session while a transaction or a schema is verified.
- `fetch.py`: reads for consumers and followers; `DelayedFetch` waits for more bytes.
- `metadata.py`: brokers, topics and leaders; creates topics automatically.

`dispatch.py` imports a module with the first request of its API, after features, authorization and
quotas are checked. A handler takes the parts of the broker from `ctx.broker` (`parts.py`), and
imports neither sockets nor a client.
"""
