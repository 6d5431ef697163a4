"""The limits that keep one client from hurting the broker or another client."""

from __future__ import annotations

from typing import Final

# Replies that a client has not taken yet. Past this no further request of its is served, so a
# client that never reads costs this much memory (and one response) and no more.
OUTBOX_BYTES_MAX: Final = 1024 * 1024

# Produce requests of one connection that may wait for replicas at the same time. Every other
# waiting request holds up its connection alone, as in Kafka.
OVERLAPPING_PRODUCES_MAX: Final = 64

# What one connection may write before the others have their turn.
TURN_BYTES_MAX: Final = 4 * 1024 * 1024

# What one connection may receive in its turn, into a buffer that all of them share.
SCRATCH_BYTES: Final = 256 * 1024

# Requests that one connection may have answered, and rounds of answering and sending, before the
# others have their turn: a client may pipeline thousands, and read as fast as we send.
TURN_REQUESTS_MAX: Final = 256
TURN_ROUNDS_MAX: Final = 4

# Parts that go into one system call.
GATHER_PARTS_MAX: Final = 64

# Connections taken from the listener before the others have their turn.
ACCEPTS_PER_TURN: Final = 64

# Connections over their address' quota that are kept waiting, lest they come again at once; more
# are closed on the spot.
THROTTLED_SOCKETS_MAX: Final = 1000

# How long to leave the listener alone when the process has run out of descriptors.
ACCEPT_PAUSE_S: Final = 0.1

# How often to look for clients that are idle, or that hung up while nothing was read from them.
SWEEP_INTERVAL_S: Final = 5.0

# TLS handshakes under way at once; the oldest makes room for one more. A handshake under way costs
# some 100 KB of OpenSSL's.
HANDSHAKES_MAX: Final = 1000

# How long a TLS handshake may take, from the connection on.
HANDSHAKE_S_MAX: Final = 10.0

# Handshakes that may take a step before the others have their turn: a signature takes up to 1 ms.
HANDSHAKES_PER_TURN: Final = 8

# How long a request may take to arrive whole: a sender that drips is never idle, and keeps the
# memory of what has come. The largest one, of 100 MiB, has to come at 170 KB/s.
REQUEST_S_MAX: Final = 600.0

# How long a client may take to authenticate by SASL.
AUTHENTICATION_S_MAX: Final = 60.0

# What is encrypted in one go.
TLS_CHUNK_BYTES: Final = 128 * 1024
