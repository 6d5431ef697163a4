"""Configs of a subscription to clients' metrics (a CLIENT_METRICS resource, KIP-714)."""

from __future__ import annotations

from ottla.config.definition import INT, LIST, ConfigDefinition

INTERVAL_MS_DEFAULT = 300_000
INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 3_600_000

CLIENT_METRICS_CONFIGS: dict[str, ConfigDefinition] = {
    definition.name: definition
    for definition in (
        ConfigDefinition(
            "metrics",
            LIST,
            (),
            None,
            "Prefixes of the names of the metrics that clients push; * means all.",
        ),
        ConfigDefinition(
            "interval.ms", INT, INTERVAL_MS_DEFAULT, None, "How often clients push them."
        ),
        ConfigDefinition(
            "match",
            LIST,
            (),
            None,
            "Which clients, as key=regular expression; all must match.",
        ),
    )
}
