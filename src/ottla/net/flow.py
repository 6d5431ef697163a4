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
