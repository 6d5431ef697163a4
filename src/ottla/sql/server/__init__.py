"""ksqlDB's REST over an Engine: HTTP/1.1, HTTP/2 and WebSocket on one port."""
