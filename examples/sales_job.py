"""A short stream job that counts the orders of each product. Orders are Avro.

ottla streams run examples/sales_job.py --bootstrap-server localhost:9092 --application-id sales
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ottla.streams import Avro, Long, String, Topology


@dataclass
class Order:
    PRODUCT: str | None
    AMOUNT: int | None


registry = os.environ.get("OTTLA_SCHEMA_REGISTRY_URL", "http://localhost:8081")
topology = Topology()
(
    topology.stream("orders", key=String(), value=Avro(Order, registry=registry))
    .group_by(lambda order: order.PRODUCT, key=String())
    .count(store="sales")
    .to_stream()
    .to("sales", key=String(), value=Long())
)
