"""Validation of a subscription to clients' metrics (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config.definition import invalid_config, invalid_value, parse_type
from ottla.config.tables.client_metrics import (
    CLIENT_METRICS_CONFIGS,
    INTERVAL_MS_MAX,
    INTERVAL_MS_MIN,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.spelling import did_you_mean

MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes of a client that `match` can name."""


def validate_client_metrics(values: Mapping[str, str]) -> None:
    """INVALID_REQUEST or INVALID_CONFIG, as Kafka raises for each kind of fault."""
    for name in values:
        if name not in CLIENT_METRICS_CONFIGS:
            words = f"Unknown client metrics configuration: {name}"
            hint = did_you_mean(name, CLIENT_METRICS_CONFIGS)
            raise KafkaError(ErrorCode.INVALID_REQUEST, words + hint)
    if (text := values.get("interval.ms")) is not None:
        _check_interval(text)
    if (text := values.get("match")) is not None:
        parse_match(text)


def parse_match(text: str) -> dict[str, re.Pattern[str]]:
    """Patterns by attribute; the last one of an attribute wins. INVALID_CONFIG for a bad pattern.

    Java's regular expressions are not quite Python's; those that people write for client ids and
    versions mean the same in both.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    parts = parse_type(text, CLIENT_METRICS_CONFIGS["match"].type)
    assert isinstance(parts, tuple)
    for part in parts:
        words = [word.strip() for word in part.split("=")]
        try:
            if len(words) != 2 or words[0] not in MATCH_KEYS or not words[1]:
                raise ValueError("not of the form key=pattern")
            patterns[words[0]] = re.compile(words[1])
        except (ValueError, re.error):
            raise invalid_config(f"Illegal client matching pattern: {part}") from None
    return patterns


def _check_interval(text: str) -> None:
    try:
        value = CLIENT_METRICS_CONFIGS["interval.ms"].parse(text)
    except ValueError as error:
        raise invalid_config(invalid_value("interval.ms", text, str(error))) from None
    assert isinstance(value, int)
    if not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for interval.ms, interval must be between"
            f" {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
