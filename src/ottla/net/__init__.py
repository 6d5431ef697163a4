"""Sockets: listeners, connections, TLS, back-pressure, and sendfile, for all that brokers do.

    server.py    the listeners: accepts connections, counts them, and sweeps out the dead ones
    channel.py   one client's connection, with every rule that decides whether it is read from
    outbox.py    replies on their way out: byte strings, gathered, and file slices, by sendfile

`inter_broker_connection.py` is the other direction, to another broker. `limits.py` has the limits
that keep one client from hurting the broker or another one: each buffer, queue and wait has one.

A peer gets memory for what it has sent, not for what it says it will send. Replies leave in the
order of the requests. The room knows frames (`wire`) and credentials (`auth`), and hands requests
to a `RequestHandler` that it is given; it never imports `broker`.
"""
