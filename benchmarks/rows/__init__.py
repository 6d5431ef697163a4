"""The rows of the table, by their name for --rows."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import OwnRow, SharedRow
from benchmarks.rows import connect, secured, statements, streams
from benchmarks.rows.cluster import CatchUp, FailoverTime, ManyPartitions, ReplicatedProduce
from benchmarks.rows.compaction import Compaction
from benchmarks.rows.connect import ConnectCopies
from benchmarks.rows.connections import ActiveConnections, IdleConnections
from benchmarks.rows.growth import Growth
from benchmarks.rows.latency import FixedRateLatency, OneInFlightLatency
from benchmarks.rows.rebalance import Rebalance
from benchmarks.rows.registry import RegistryLoad
from benchmarks.rows.requests import PIPELINE_DEPTH, LibrdkafkaRequests, RawRequests
from benchmarks.rows.secured import (
    AccessCost,
    FullHandshakes,
    SecuredConsume,
    SecuredProduce,
)
from benchmarks.rows.spark import SparkJobs, SparkLatency, SparkStart
from benchmarks.rows.sql import SqlQueries
from benchmarks.rows.start import Start
from benchmarks.rows.statements import SqlStatements
from benchmarks.rows.streams import StreamsJobs
from benchmarks.rows.throughput import Consume, Produce, ProduceAndConsume
from benchmarks.rows.transactions import TransactionalProduce
from benchmarks.settings import LARGE_BYTES, SMALL_BYTES, Settings


def shared_rows() -> dict[str, list[SharedRow]]:
    return {
        "produce": [Produce(SMALL_BYTES), Produce(LARGE_BYTES)],
        "consume": [Consume(SMALL_BYTES), Consume(LARGE_BYTES)],
        "both": [ProduceAndConsume(LARGE_BYTES)],
        "requests": [
            RawRequests("1 connection"),
            RawRequests(f"1 connection, {PIPELINE_DEPTH} in flight", depth=PIPELINE_DEPTH),
            RawRequests("16 connections", connections=16, partitions=8),
            LibrdkafkaRequests(),
        ],
        "latency": [FixedRateLatency(), OneInFlightLatency()],
        "connections": [IdleConnections(), ActiveConnections()],
        "transactions": [
            TransactionalProduce(records=1),
            TransactionalProduce(records=100),
            TransactionalProduce(records=100, partitions=10),
        ],
        "rebalance": [Rebalance("classic"), Rebalance("consumer")],
    }


def secured_rows() -> dict[str, list[SharedRow]]:
    """On brokers that also listen over TLS."""
    doors = ("SSL", "SASL_SSL")
    return {
        "secured": [
            *(SecuredProduce(protocol) for protocol in doors),
            *(SecuredConsume(protocol) for protocol in doors),
            FullHandshakes(),
        ],
    }


def own_rows() -> dict[str, list[OwnRow]]:
    return {
        "access": [AccessCost()],
        "compaction": [Compaction()],
        "start": [Start()],
        "spark": [SparkJobs(), SparkLatency()],
        "spark-start": [SparkStart()],
        "replicated": [ReplicatedProduce()],
        "catch-up": [CatchUp()],
        "failover": [FailoverTime()],
        "partitions": [ManyPartitions()],
        "registry": [RegistryLoad()],
        "sql": [SqlQueries()],
        "sql-statements": [SqlStatements()],
        "connect": [ConnectCopies()],
        "streams": [StreamsJobs()],
        "growth": [Growth()],
    }


CONDITIONS: dict[str, Callable[[Settings], str]] = {
    "connect": connect.conditions,
    "secured": secured.conditions,
    "sql-statements": statements.conditions,
    "streams": streams.conditions,
}
"""What a reader must know of one row besides."""
ROW_KEYS = (*shared_rows(), *secured_rows(), *own_rows())
