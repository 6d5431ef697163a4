"""Why a request is not done, with the HTTP status that says so. The words are Kafka's."""

from __future__ import annotations


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Elsewhere(Exception):
    """Another worker does it: the leader, or the owner. None: nobody knows which, for a moment."""

    def __init__(self, url: str | None) -> None:
        super().__init__(url or "no leader is known")
        self.url = url


def not_found(words: str) -> Refusal:
    return Refusal(404, words)


def conflict(words: str) -> Refusal:
    return Refusal(409, words)


def bad_request(words: str) -> Refusal:
    return Refusal(400, words)


def server_error(words: str) -> Refusal:
    return Refusal(500, words)


def stale() -> Refusal:
    return conflict(
        "Cannot complete request momentarily due to stale configuration (typically caused by a"
        " concurrent config change)"
    )


def no_leader() -> Refusal:
    return conflict(
        "Cannot complete request momentarily due to no known leader URL, likely because a"
        " rebalance was underway."
    )


def two_hops() -> Refusal:
    return conflict(
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )
