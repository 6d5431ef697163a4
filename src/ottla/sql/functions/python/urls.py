"""Parts of URLs, as java.net.URI finds them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_plus, unquote_to_bytes

URI: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):)?(?://(?P<authority>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
AUTHORITY: Final = re.compile(r"(?:.*@)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>\d*))?")
ILLEGAL: Final = re.compile(r'[\x00-\x20"<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})')
BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _part(url: str, name: str) -> str | None:
    found = None if ILLEGAL.search(url) else URI.fullmatch(url)
    return found[name] if found is not None else None


def url_encode_param(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


def url_decode_param(text: str | None) -> str | None:
    if text is None or BAD_ESCAPE.search(text):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def url_extract_fragment(url: str) -> str | None:
    return url_decode_param(_part(url, "fragment"))


def _authority(url: str, name: str) -> str | None:
    found = AUTHORITY.fullmatch(_part(url, "authority") or "")
    return (found[name] or None) if found is not None else None


def url_extract_host(url: str) -> str | None:
    return _authority(url, "host")


def url_extract_port(url: str) -> int | None:
    found = _authority(url, "port")
    return int(found) if found else None


def url_extract_path(url: str) -> str | None:
    return url_decode_param(_part(url, "path"))


def url_extract_protocol(url: str) -> str | None:
    return _part(url, "scheme")


def url_extract_query(url: str) -> str | None:
    return url_decode_param(_part(url, "query"))


def url_extract_parameter(url: str, name: str) -> str | None:
    for pair in (_part(url, "query") or "").split("&"):
        key, found, value = pair.partition("=")
        if found and url_decode_param(key) == name:
            return url_decode_param(value) or None
    return None
