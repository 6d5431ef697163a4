"""Exceptions that REST turns into answers: an HTTP status and a message. Messages are Kafka's."""

from __future__ import annotations


class ConnectRestException(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RequestTargetException(Exception):
    """Another worker, the leader or the owner, must handle the request. None: currently unknown."""

    def __init__(self, url: str | None) -> None:
        super().__init__(url or "no known leader")
        self.url = url


def not_found(words: str) -> ConnectRestException:
    return ConnectRestException(404, words)


def conflict(words: str) -> ConnectRestException:
    return ConnectRestException(409, words)


def bad_request(words: str) -> ConnectRestException:
    return ConnectRestException(400, words)


def server_error(words: str) -> ConnectRestException:
    return ConnectRestException(500, words)


def stale_configuration() -> ConnectRestException:
    return conflict(
        "Cannot complete request momentarily due to stale configuration (typically caused by a"
        " concurrent config change)"
    )


def no_leader() -> ConnectRestException:
    return conflict(
        "Cannot complete request momentarily due to no known leader URL, likely because a"
        " rebalance was underway."
    )


def two_hops() -> ConnectRestException:
    return conflict(
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )
