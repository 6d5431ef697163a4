"""Configs of a subscription to clients' metrics (a CLIENT_METRICS resource, KIP-714)."""

from __future__ import annotations

from ottla.config.definition import INT, LIST, Definition

INTERVAL_MS_DEFAULT = 300_000
INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 3_600_000

CLIENT_METRICS_CONFIGS: dict[str, Definition] = {
    each.name: each
    for each in (
        Definition(
            "metrics",
            LIST,
            (),
            None,
            "Beginnings of the names of the metrics that clients shall push; * is all of them.",
        ),
        Definition(
            "interval.ms", INT, INTERVAL_MS_DEFAULT, None, "How often clients shall push them."
        ),
        Definition(
            "match",
            LIST,
            (),
            None,
            "Which clients: key=regular expression, all of which must match.",
        ),
    )
}
