"""The jobs of the row `streams`: OTTLA_BENCH_JOB says which. `ottla streams run streams_job.py`.

java/StreamsJob.java is the same for Kafka Streams.
"""

from __future__ import annotations

import os

from ottla.streams import Json, Long, String, TimeWindowed, Topology, tumbling

WHICH = "OTTLA_BENCH_JOB"
WINDOW_MS = 60_000


def topology() -> Topology:
    made = Topology(key=String(), value=Json())
    orders = made.stream("orders")
    match os.environ[WHICH]:
        case "stateless":
            kept = orders.filter(lambda order: order["v"] >= 0)
            kept.map_values(lambda order: {**order, "v": order["v"] + 1}).to("results")
        case "windowed count":
            windows = orders.group_by_key().windowed_by(tumbling(WINDOW_MS))
            counts = windows.count(store="counts").to_stream()
            counts.to("results", key=TimeWindowed(String(), WINDOW_MS), value=Long())
        case "table join":
            customers = made.table("customers")
            joined = orders.join(customers, lambda order, customer: {**order, **customer})
            joined.to("results")
        case other:
            raise ValueError(f"there is no job {other}")
    return made
