"""What the REST servers of SQL, Connect and the registry share: authentication and the socket.

    guard.py           the ASGI middleware in front of every route: authenticates, authorizes
    settings.py        its settings, by the names that ksqlDB and Kafka Connect use
    users.py           the file of users, with salted hashes; bearer.py: OAuth tokens
    request_body.py    reads a body up to a limit; blocking_calls.py: threads for handlers that wait
    server_thread.py   an HTTP server in a thread: start, stop, port; stop_event.py: signals end it

Routes, paths and the form of errors belong to each server. This room knows no topic and no query.
"""
