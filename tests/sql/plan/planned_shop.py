"""A small shop to plan queries against."""

from __future__ import annotations

from ottla.sql.catalog import Catalog
from ottla.sql.definitions import define
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.sinks import SinkSpec
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import (
    CreateAsSelect,
    CreateSource,
    InsertSelect,
    Select,
    SourceKind,
)

SHOP = """
CREATE STREAM orders (id STRING KEY, customer BIGINT, item STRING, amount INT, price DOUBLE,
    tags ARRAY<STRING>, place STRUCT<city STRING, zip INT>)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM payments (id STRING KEY, order_id STRING, amount INT)
    WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
CREATE STREAM shipments (id STRING KEY, order_id STRING, carrier STRING)
    WITH (KAFKA_TOPIC='shipments', VALUE_FORMAT='JSON');
CREATE STREAM clicks (page STRING, seen BIGINT)
    WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='DELIMITED');
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING, region STRING, zip INT)
    WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE TABLE scores (id BIGINT PRIMARY KEY, score INT)
    WITH (KAFKA_TOPIC='scores', VALUE_FORMAT='JSON');
CREATE TABLE regions (region STRING PRIMARY KEY, manager STRING)
    WITH (KAFKA_TOPIC='regions', VALUE_FORMAT='JSON');
CREATE TABLE by_minute (item STRING PRIMARY KEY, n BIGINT) WITH (KAFKA_TOPIC='by_minute',
    VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 MINUTE');
"""


def shop() -> Catalog:
    catalog = Catalog()
    for statement in parse(SHOP):
        catalog = with_source(catalog, statement.text)
    return catalog


def with_source(catalog: Catalog, text: str) -> Catalog:
    (statement,) = parse(text)
    assert isinstance(statement, CreateSource)
    return catalog.with_source(define(statement, lambda _: 2, {}).source)


def planned(text: str, catalog: Catalog | None = None, **properties: str) -> QueryPlan:
    """The plan of one statement: CREATE ... AS SELECT, INSERT INTO or SELECT."""
    catalog = catalog or shop()
    (statement,) = parse(text if text.rstrip().endswith(";") else text + ";")
    if isinstance(statement, CreateAsSelect):
        spec = SinkSpec(statement.name, statement.kind, statement.properties)
        return plan_query(statement.query, catalog, properties, sink=spec)
    if isinstance(statement, InsertSelect):
        target = catalog.find(statement.target)
        spec = SinkSpec(statement.target, SourceKind(target.kind), statement.properties, target)
        return plan_query(statement.query, catalog, properties, sink=spec)
    assert isinstance(statement, Select)
    return plan_query(statement.query, catalog, properties)
