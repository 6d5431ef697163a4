"""The server: ksqlDB's REST API over an Engine; HTTP/1.1, HTTP/2 and WebSocket on one port.

    server.py           `ottla sql-server` in the foreground
    app.py              the routes, and responses about the server itself
    query_streams.py    /query-stream, /query and /ws/query: rows as they come

Handlers run on the event loop, and pass everything that waits for Spark or the broker to a pool of
threads. Paths, field names and error codes are ksqlDB's, so that its clients work unchanged.
Nothing here may plan or execute statements: that is the engine's part.
"""
