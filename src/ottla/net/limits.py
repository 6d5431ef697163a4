"""The limits that keep one client from hurting the broker or another client."""

from __future__ import annotations

from typing import Final

# Bytes of replies that a client has not read yet. Beyond this its next request is not served, so a
# client that never reads costs this much memory, and one response, and no more.
OUTBOX_BYTES_MAX: Final = 1024 * 1024

# Produce requests of one connection that may wait for replicas at the same time. Any other request
# that waits holds up the requests behind it, as in Kafka.
OVERLAPPING_PRODUCES_MAX: Final = 64

# What one connection may write before the others get their turn.
TURN_BYTES_MAX: Final = 4 * 1024 * 1024

# What one connection may receive in its turn, into a buffer that all of them share.
SCRATCH_BYTES: Final = 256 * 1024

# Requests of one connection that are served, and rounds of serving and sending, before the others
# get their turn: a client may pipeline thousands, and read as fast as the broker sends.
TURN_REQUESTS_MAX: Final = 256
TURN_ROUNDS_MAX: Final = 4

# Parts that go into one system call.
GATHER_PARTS_MAX: Final = 64

# Connections accepted before the others get their turn.
ACCEPTS_PER_TURN: Final = 64

# Connections over their address's quota that are kept open for a while, so that their clients don't
# reconnect at once; more are closed at once.
THROTTLED_SOCKETS_MAX: Final = 1000

# How long to leave the listener alone when the process has run out of descriptors.
ACCEPT_PAUSE_S: Final = 0.1

# How often to look for clients that are idle, or disconnected while nothing was read from them.
SWEEP_INTERVAL_S: Final = 5.0

# TLS handshakes at a time; the oldest makes room for one more. Each costs OpenSSL some 100 KB.
HANDSHAKES_MAX: Final = 1000

# How long a TLS handshake may take, from the connection on.
HANDSHAKE_LIMIT_S: Final = 10.0

# Handshakes that take a step before the others get their turn: a signature takes up to 1 ms.
HANDSHAKES_PER_TURN: Final = 8

# How long a request may take to arrive: a client that sends byte by byte is never idle, and what it
# has sent takes memory. The largest request, of 100 MiB, must come at 170 KB/s.
REQUEST_LIMIT_S: Final = 600.0

# How long a client may take to authenticate by SASL.
AUTHENTICATION_LIMIT_S: Final = 60.0

# What is encrypted in one call.
TLS_CHUNK_BYTES: Final = 128 * 1024
