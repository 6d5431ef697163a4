"""Health checks: does a service answer, and is it ready? One probe for each kind of service.

python -m ottla.cli.local.health broker 127.0.0.1:9092      exit code 0 if it is ready
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.protocol.connection import BrokerConnection
from ottla.errors import KafkaError

ASK_S_MAX: Final = 2.0
ANSWER_BYTES_MAX: Final = 1 << 20
LOGIN: Final = (401, 403)
_DIRECTLY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy


@dataclass(frozen=True, slots=True)
class Health:
    """`words` describe the service, or say why it is not ready."""

    ready: bool
    words: str = ""
    reached: bool = True


def broker_health(address: str) -> Health:
    host, _, port = address.rpartition(":")
    try:
        BrokerConnection(host, int(port), settings={}, timeout_s=ASK_S_MAX).close()
    except KafkaError as error:
        return Health(False, str(error), reached=False)
    return Health(True)


def zookeeper_health(address: str) -> Health:
    """Ready if it answers and belongs to a majority."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=ASK_S_MAX) as line:
            line.sendall(b"srvr")
            answer = line.recv(4096)
    except OSError as error:
        return Health(False, error.strerror or str(error), reached=False)
    return Health(b"Mode:" in answer, "" if b"Mode:" in answer else "no majority yet")


def registry_health(url: str) -> Health:
    return _rest(f"{url}/subjects", lambda status, body: Health(status == 200))


def connect_health(url: str) -> Health:
    def read(status: int, body: Any) -> Health:
        if status == 404:  # Kafka Connect before 3.9 has no /health
            return Health(True)
        return Health(status == 200, "" if status == 200 else "joins its group")

    return _rest(f"{url}/health", read)


def sql_health(url: str) -> Health:
    """Ready once Spark is, because queries run from then on. ksqlDB itself reports less."""

    def read(status: int, body: Any) -> Health:
        details = body.get("details", {}) if isinstance(body, dict) else {}
        spark = details.get("spark", {}).get("state", "ready")
        broken = [name for name, detail in details.items() if not detail.get("isHealthy", True)]
        if status == 200 and spark == "ready":
            return Health(True)
        if status == 200 and spark == "starting":
            return Health(False, "starts Spark")
        return Health(False, f"not healthy: {', '.join(broken) or f'HTTP {status}'}")

    return _rest(f"{url}/healthcheck", read)


PROBES: Final[Mapping[str, Callable[[str], Health]]] = {
    "broker": broker_health,
    "zookeeper": zookeeper_health,
    "registry": registry_health,
    "sql": sql_health,
    "connect": connect_health,
}


def _rest(url: str, read: Callable[[int, Any], Health]) -> Health:
    try:
        with _DIRECTLY.open(url, timeout=ASK_S_MAX) as answer:
            return read(answer.status, _json(answer.read(ANSWER_BYTES_MAX)))
    except urllib.error.HTTPError as error:
        with error:
            if error.code in LOGIN:
                return Health(True, "asks for a login")
            return read(error.code, _json(error.read(ANSWER_BYTES_MAX)))
    except (OSError, ValueError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        return Health(False, str(getattr(cause, "strerror", None) or cause), reached=False)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def main(arguments: Sequence[str]) -> int:
    """For containers and scripts, which call it often: it imports little."""
    if len(arguments) != 2 or arguments[0] not in PROBES:
        print(f"USAGE: python -m {__spec__.name} {{{'|'.join(PROBES)}}} ADDRESS", file=sys.stderr)
        return 2
    kind, address = arguments
    health = PROBES[kind](address)
    state = "ready" if health.ready else "not ready"
    print(f"{kind} at {address}: {state} {health.words}".rstrip())
    return 0 if health.ready else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
