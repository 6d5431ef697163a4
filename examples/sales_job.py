"""How often each product was ordered: a stream job in ten lines.

ottla streams run examples/sales_job.py --bootstrap-server localhost:9092 --application-id sales
"""

from __future__ import annotations

from ottla.spark.streams import Json, Long, String, Topology

topology = Topology()
(
    topology.stream("orders", key=String(), value=Json())
    .group_by(lambda order: order["product"], key=String())
    .count(store="sales")
    .to_stream()
    .to("sales", key=String(), value=Long())
)
