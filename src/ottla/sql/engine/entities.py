"""Entities: responses in the shapes of ksqlDB's REST API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.rows.errors import SqlError
from ottla.rows.schema import Column, LogicalSchema, Role
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.engine.topic_client import TopicProperties
from ottla.sql.syntax.statements import SourceKind

Entity = dict[str, Any]


def entity(kind: str, statement: str, **fields: Any) -> Entity:
    return {"@type": kind, "statementText": statement, **fields, "warnings": []}


def error_entity(error: SqlError, statement: str = "") -> Entity:
    """The remedy is part of the message, because ksqlDB's error entity has no field for it."""
    text = error.statement or statement
    fields: Entity = {
        "@type": "statement_error" if text else "generic_error",
        "error_code": int(error.code),
        "message": str(error),
    }
    if text:
        fields |= {"statementText": text, "entities": []}
    if error.remedy:
        fields["remedy"] = error.remedy
    if error.line:
        fields |= {"line": error.line, "column": error.column}
    return fields


def current_status(
    statement: str,
    *,
    command_id: str,
    status: str,
    message: str,
    query_id: str = "",
    number: int,
) -> Entity:
    return entity(
        "currentStatus",
        statement,
        commandId=command_id,
        commandStatus={"status": status, "message": message, "queryId": query_id or None},
        commandSequenceNumber=number,
    )


def with_warnings(entity_: Entity, messages: Iterable[str]) -> Entity:
    return {**entity_, "warnings": [{"message": message} for message in messages]}


def warning(statement: str, message: str) -> Entity:
    return entity("warning_entity", statement, message=message)


def source_list(statement: str, kind: SourceKind, sources: Iterable[DataSource]) -> Entity:
    name = "streams" if kind is SourceKind.STREAM else "tables"
    listed = [
        {
            "type": kind.value,
            "name": source.name,
            "topic": source.topic,
            "keyFormat": source.layout.key_format.name,
            "valueFormat": source.layout.value_format.name,
            "isWindowed": source.is_windowed,
        }
        for source in sources
    ]
    return entity(name, statement, **{name: listed})


def fields_of(schema: LogicalSchema) -> list[dict[str, Any]]:
    return [_field(column) for column in schema.columns]


def _field(column: Column) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "schema": column.type.to_json()}
    if column.role is Role.KEY:
        described["type"] = "KEY"
    elif column.role in (Role.HEADERS, Role.HEADER):
        described["type"] = "HEADER"
        described["headerKey"] = column.header or None
    return described


def source_description(
    source: DataSource,
    catalog: Catalog,
    facts: TopicProperties | None,
    *,
    extended: bool,
    states: Mapping[str, str],
    statistics: str = "",
    error_stats: str = "",
    offsets: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    windowed = source.layout.windowed
    return {
        "name": source.name,
        "windowType": windowed.kind.value if windowed else None,
        "readQueries": [
            running_query(catalog, query, states) for query in catalog.readers(source.name)
        ],
        "writeQueries": [
            running_query(catalog, query, states) for query in catalog.writers(source.name)
        ],
        "fields": fields_of(source.schema),
        "type": source.kind.value,
        "timestamp": source.layout.timestamp,
        "statistics": statistics,
        "errorStats": error_stats,
        "extended": extended,
        "keyFormat": source.layout.key_format.name,
        "valueFormat": source.layout.value_format.name,
        "topic": source.topic,
        "partitions": len(facts.replicas) if facts else 0,
        "replication": facts.replicas[0] if facts and facts.replicas else 0,
        "statement": source.sql_text,
        "queryOffsetSummaries": list(offsets),
        "sourceConstraints": catalog.built_on(source.name),
    }


def running_query(catalog: Catalog, query_id: str, states: Mapping[str, str]) -> dict[str, Any]:
    query = catalog.queries[query_id]
    sink = catalog.sources.get(query.sink)
    return query_entry(
        query_id,
        query.text,
        [query.sink],
        [sink.topic] if sink else [],
        states.get(query_id, "UNKNOWN"),
    )


def query_entry(
    query_id: str, text: str, sinks: list[str], topics: list[str], state: str, kind: str = ""
) -> dict[str, Any]:
    return {
        "queryString": text,
        "sinks": sinks,
        "sinkKafkaTopics": topics,
        "id": query_id,
        "statusCount": {state: 1},
        "queryType": kind or "PERSISTENT",
        "state": state,
    }


def type_list(statement: str, catalog: Catalog) -> Entity:
    types = {name: type_.to_json() for name, type_ in sorted(catalog.types.items())}
    return entity("type_list", statement, types=types)


def topic_list(
    statement: str, topics: Iterable[TopicProperties], readers: Mapping[str, tuple[int, int]] | None
) -> Entity:
    if readers is None:
        listed = [{"name": topic.name, "replicaInfo": list(topic.replicas)} for topic in topics]
        return entity("kafka_topics", statement, topics=listed)
    extended = [
        {
            "name": topic.name,
            "replicaInfo": list(topic.replicas),
            "consumerCount": readers.get(topic.name, (0, 0))[0],
            "consumerGroupCount": readers.get(topic.name, (0, 0))[1],
        }
        for topic in topics
    ]
    return entity("kafka_topics_extended", statement, topics=extended)
