"""How often each product was ordered: a stream job in ten lines. Orders are Avro.

ottla streams run examples/sales_job.py --bootstrap-server localhost:9092 --application-id sales
"""

from __future__ import annotations

import os

from ottla.spark.streams import Avro, Long, String, Topology

registry = os.environ.get("OTTLA_SCHEMA_REGISTRY_URL", "http://localhost:8081")
topology = Topology()
(
    topology.stream("orders", key=String(), value=Avro(registry=registry))
    .group_by(lambda order: order["PRODUCT"], key=String())
    .count(store="sales")
    .to_stream()
    .to("sales", key=String(), value=Long())
)
