"""`listeners` and `advertised.listeners`: where the broker listens, and where clients connect.

    PLAINTEXT://127.0.0.1:9092, INTERNAL://[::1]:0, EXTERNAL://:9094

A name that is not itself a security protocol needs an entry in `listener.security.protocol.map`.
Port 0 takes any free port; what is advertised for it is known once the socket is bound.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_URI = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\[\]:/,\s]*))"
    r":(?P<port>[0-9]{1,5})\Z"
)


@dataclass(slots=True, frozen=True)
class Listener:
    """One endpoint. `host` is empty for all interfaces; IPv6 addresses have no brackets."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...`; ValueError names the invalid entry."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ValueError(
                f"'{entry}' is not NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name.upper() in protocols:
            raise ValueError(f"listener '{name}' is mapped twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(entries: tuple[str, ...], protocols: Mapping[str, str]) -> list[Listener]:
    """ValueError names the invalid entry and the reason. Names become upper case, as in Kafka."""
    listeners: list[Listener] = []
    for entry in entries:
        match = _URI.match(entry)
        if match is None or int(match["port"]) > 65535:
            raise ValueError(f"'{entry}' is not of the form NAME://host:port")
        name = match["name"].upper()
        if name not in protocols:
            raise ValueError(
                f"no security protocol is defined for listener {name}:"
                " name it in listener.security.protocol.map"
            )
        host = match["v6"] or match["host"] or ""
        listeners.append(Listener(name, host, int(match["port"]), protocols[name]))
    _refuse_duplicates(listeners)
    return listeners


def _refuse_duplicates(listeners: list[Listener]) -> None:
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ValueError("each listener must have a different name")
    # One port may serve two listeners only when they differ in address (one IPv4, one IPv6).
    ends = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(ends)) != len(ends):
        raise ValueError("each listener must have a different port")


def advertise(
    advertised: tuple[Listener, ...], bound_ports: Mapping[str, int]
) -> tuple[Listener, ...]:
    """The listeners to advertise once the sockets are bound: with the real port in place of 0, and
    this machine's name in place of an empty host."""
    resolved = []
    for listener in advertised:
        port = listener.port or bound_ports.get(listener.name, 0)
        resolved.append(replace(listener, port=port, host=listener.host or socket.getfqdn()))
    return tuple(resolved)
