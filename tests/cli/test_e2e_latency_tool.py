"""kafka-e2e-latency: the lines are Kafka's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.cli.kafka import e2e_latency


def test_end_to_end_latency(run: Callable[..., Any], bootstrap: str, topic: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "20")
    sizes = ("--producer-acks", "all", "--record-size", "20", "--num-headers", "2")
    done = run(e2e_latency.main, *words, *sizes, "--record-key-size", "4")
    assert done.code == 0, done.err
    assert done.lines[0] == (
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication'
        " factor = 1"
    )
    assert done.lines[1].startswith("0\t")
    assert done.lines[2].startswith("Avg latency: ")
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", done.lines[3])
    positional = run(e2e_latency.main, bootstrap, topic, "3", "1", "10")
    assert positional.lines[0].startswith("0\t")
    refused = run(e2e_latency.main, bootstrap, topic, "3", "0", "10")
    assert refused.code == 1
    assert "requires synchronous acknowledgement" in refused.err
