"""Parts of URLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.sql.functions.function_registry import Function
from ottla.sql.functions.python import urls as python
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "URLs"


def _part(
    name: str,
    part: str,
    description: str,
    compute: Callable[[str], Any],
    *,
    decoded: bool = True,
) -> Function:
    text = f"try_parse_url({{0}}, '{part}')"
    spark = f"try_url_decode({text})" if decoded else text
    return scalar(
        name, FAMILY, description, signature("STRING url -> STRING", spark, python=compute)
    )


URLS: Final = (
    scalar(
        "URL_DECODE_PARAM",
        FAMILY,
        "The text of a parameter in a URL.",
        signature("STRING value -> STRING", "try_url_decode({0})", python=python.url_decode_param),
    ),
    scalar(
        "URL_ENCODE_PARAM",
        FAMILY,
        "A text as it must be written as a parameter in a URL.",
        signature("STRING value -> STRING", "url_encode({0})", python=python.url_encode_param),
    ),
    _part("URL_EXTRACT_FRAGMENT", "REF", "What comes after the `#`.", python.url_extract_fragment),
    _part(
        "URL_EXTRACT_HOST", "HOST", "The name of the host.", python.url_extract_host, decoded=False
    ),
    scalar(
        "URL_EXTRACT_PARAMETER",
        FAMILY,
        "The value of a parameter; NULL where it is not there or has none.",
        signature(
            "STRING url, STRING name -> STRING",
            "nullif(try_url_decode(try_parse_url({0}, 'QUERY', replace(url_encode({1}), '+', "
            "'%20'))), '')",
            python=python.url_extract_parameter,
        ),
    ),
    _part(
        "URL_EXTRACT_PATH", "PATH", "The path; empty where there is none.", python.url_extract_path
    ),
    scalar(
        "URL_EXTRACT_PORT",
        FAMILY,
        "The number of the port; NULL where the URL does not say it.",
        signature(
            "STRING url -> INTEGER",
            r"try_cast(regexp_substr(try_parse_url({0}, 'AUTHORITY'), '(?<=:)\\d+$') AS int)",
            python=python.url_extract_port,
        ),
    ),
    _part(
        "URL_EXTRACT_PROTOCOL",
        "PROTOCOL",
        "The protocol.",
        python.url_extract_protocol,
        decoded=False,
    ),
    _part(
        "URL_EXTRACT_QUERY", "QUERY", "What comes after the `?`, decoded.", python.url_extract_query
    ),
)
