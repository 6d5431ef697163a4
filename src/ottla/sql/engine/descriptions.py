"""SHOW, DESCRIBE and EXPLAIN, answered from a snapshot of the state and from the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.sql.catalog import PersistentQuery, schema_text
from ottla.sql.engine import entities
from ottla.sql.engine.entities import Entity, entity
from ottla.sql.engine.state_changes import EngineState
from ottla.sql.engine.topic_client import TopicClient
from ottla.sql.functions import BUILTIN
from ottla.sql.ksql_config import PROPERTIES, STATE_DIR, KsqlConfig
from ottla.sql.plan.explain import explain_plan as explain
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax.statements import (
    Describe,
    DescribeFunction,
    DescribeSources,
    Show,
    SourceKind,
    Subject,
)

INTERNAL_PREFIXES: Final = ("_", "__")

WAITING: Final = ("STARTING", "STANDBY")
"""States of queries that wait for Spark or for the lease; nothing is wrong with them."""


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """State and progress of a persistent query on this server."""

    state: str
    cause: str = ""
    progress: Mapping[str, Any] | None = None

    @property
    def error(self) -> str:
        """The cause, if something is wrong; a waiting query has a cause, but no error."""
        return "" if self.state in WAITING else self.cause


@dataclass(frozen=True, slots=True)
class DescriptionContext:
    """What SHOW, DESCRIBE and EXPLAIN read."""

    state: EngineState
    cluster: TopicClient
    settings: KsqlConfig
    queries: Mapping[str, QueryDescription]
    pushed: Mapping[str, str]
    """Statement texts of the push queries open on this server, by id."""
    overrides: Mapping[str, str]
    variables: Mapping[str, str]
    host: str
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """By topic: how many records could not be deserialized, and why the last one could not."""

    @property
    def states(self) -> dict[str, str]:
        return {id_: query.state for id_, query in self.queries.items()}


def show(statement: Show, context: DescriptionContext) -> Entity:
    text, state = statement.text, context.state
    match statement.subject:
        case Subject.STREAMS | Subject.TABLES:
            kind = SourceKind(statement.subject.value[:-1])
            if statement.extended:
                return _descriptions(text, kind, context, extended=True)
            return entities.source_list(text, kind, state.catalog.of_kind(kind))
        case Subject.TOPICS | Subject.ALL_TOPICS:
            return _topics(statement, context)
        case Subject.QUERIES:
            return _queries(statement, context)
        case Subject.TYPES:
            return entities.type_list(text, state.catalog)
        case Subject.FUNCTIONS:
            return _functions(text)
        case Subject.PROPERTIES:
            return _properties(text, context)
        case Subject.VARIABLES:
            listed = [{"name": name, "value": value} for name, value in context.variables.items()]
            return entity("variables", text, variables=listed)
    raise AssertionError(f"{statement.subject}: a Connect worker answers this")


def _topics(statement: Show, context: DescriptionContext) -> Entity:
    every = statement.subject is Subject.ALL_TOPICS
    topics = [
        topic
        for topic in context.cluster.describe().values()
        if every or not topic.name.startswith(INTERNAL_PREFIXES)
    ]
    readers = context.cluster.readers() if statement.extended else None
    return entities.topic_list(statement.text, topics, readers)


# -- streams and tables


def describe(statement: Describe, context: DescriptionContext) -> Entity:
    described = _description(statement.name, context, statement.extended)
    return entity("sourceDescription", statement.text, sourceDescription=described)


def describe_sources(statement: DescribeSources, context: DescriptionContext) -> Entity:
    return _descriptions(statement.text, statement.kind, context, extended=statement.extended)


def _descriptions(
    text: str, kind: SourceKind, context: DescriptionContext, *, extended: bool
) -> Entity:
    described = [
        _description(source.name, context, extended)
        for source in context.state.catalog.of_kind(kind)
    ]
    return entity("source_descriptions", text, sourceDescriptions=described)


def _description(name: str, context: DescriptionContext, extended: bool) -> dict[str, Any]:
    catalog = context.state.catalog
    source = catalog.sources.get(name)
    if source is None:
        raise SqlError(
            f"Could not find STREAM/TABLE '{name}' in the Metastore",
            remedy="SHOW STREAMS; and SHOW TABLES; list what there is.",
        )
    facts = context.cluster.describe([source.topic]).get(source.topic) if extended else None
    causes = [
        f"{id_}: {context.queries[id_].error}"
        for id_ in (*catalog.readers(name), *catalog.writers(name))
        if id_ in context.queries and context.queries[id_].error
    ]
    causes += [context.unreadable[source.topic]] if source.topic in context.unreadable else []
    return entities.source_description(
        source,
        catalog,
        facts,
        extended=extended,
        states=context.states,
        error_stats="\n".join(causes) if extended else "",
    )


# -- queries


def _queries(statement: Show, context: DescriptionContext) -> Entity:
    state = context.state
    failed = {id_: failure.query for id_, failure in state.failures.items()}
    listed = {**state.catalog.queries, **failed}
    if statement.extended:
        described = [_query_description(query, context) for query in listed.values()]
        return entity("query_descriptions", statement.text, queryDescriptions=described)
    entries = []
    for id_, query in listed.items():
        sink = state.catalog.sources.get(query.sink)
        topics = [sink.topic] if sink else []
        facts = context.queries.get(id_, QueryDescription("UNKNOWN"))
        entry = entities.query_entry(id_, query.text, [query.sink], topics, facts.state)
        if facts.cause:
            entry["cause"] = facts.cause
        entries.append(entry)
    entries += [
        entities.query_entry(id_, text, [], [], "RUNNING", kind="PUSH")
        for id_, text in context.pushed.items()
    ]
    return entity("queries", statement.text, queries=entries)


def explain_running(query_id: str, text: str, context: DescriptionContext) -> Entity:
    failure = context.state.failures.get(query_id.upper())
    query = failure.query if failure else context.state.catalog.query(query_id)
    described = _query_description(query, context)
    return entity("queryDescription", text, queryDescription=described)


def explain_plan(text: str, plan: QueryPlan) -> Entity:
    described: dict[str, Any] = {
        "id": "",
        "statementText": text,
        "windowType": plan.layout.windowed.kind.value if plan.layout.windowed else None,
        "fields": entities.fields_of(plan.schema),
        "sources": list(plan.sources),
        "sinks": [],
        "topology": explain(plan),
        "executionPlan": schema_text(plan.schema),
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PUSH",
        "queryErrors": [],
        "tasksMetadata": [],
        "state": None,
    }
    return entity("queryDescription", text, queryDescription=described)


def _query_description(query: PersistentQuery, context: DescriptionContext) -> dict[str, Any]:
    plan = context.state.plans.get(query.id)
    facts = context.queries.get(query.id, QueryDescription("UNKNOWN"))
    windowed = plan.layout.windowed if plan else None
    errors = [{"timestamp": 0, "errorMessage": facts.error, "type": "UNKNOWN"}]
    described: dict[str, Any] = {
        "id": query.id,
        "statementText": query.text,
        "windowType": windowed.kind.value if windowed else None,
        "fields": entities.fields_of(plan.schema) if plan else [],
        "sources": list(query.reads),
        "sinks": [query.sink],
        "topology": explain(plan) if plan else "",
        "executionPlan": schema_text(plan.schema) if plan else "",
        "overriddenProperties": dict(query.properties),
        "ksqlHostQueryStatus": {context.host: facts.state},
        "queryType": "PERSISTENT",
        "queryErrors": errors if facts.error else [],
        "tasksMetadata": [],
        "state": facts.state,
        "progress": dict(facts.progress or {}),
    }
    if facts.cause:
        described["cause"] = facts.cause
    topics = [
        source.topic for name in query.reads if (source := context.state.catalog.sources.get(name))
    ]
    described["unreadable"] = [
        context.unreadable[topic] for topic in topics if topic in context.unreadable
    ]
    return described


# -- functions


def _functions(text: str) -> Entity:
    listed = [
        {"name": function.name, "type": function.kind.value, "category": function.family}
        for function in BUILTIN
    ]
    return entity("function_names", text, functions=listed)


def describe_function(statement: DescribeFunction) -> Entity:
    function = BUILTIN.get(statement.name)
    variations = [
        {
            "arguments": [
                {
                    "name": parameter.name,
                    "type": str(parameter.pattern),
                    "description": "",
                    "isVariadic": index == signature.variadic,
                }
                for index, parameter in enumerate(signature.parameters)
            ],
            "returnType": str(signature.result),
            "description": function.description,
        }
        for signature in function.signatures
    ]
    return entity(
        "describe_function",
        statement.text,
        name=function.name,
        description=function.description,
        author="Ottla",
        version="",
        path="",
        functions=variations,
        type=function.kind.value,
    )


# -- properties


def _properties(text: str, context: DescriptionContext) -> Entity:
    values = {name: context.settings.get(name) for name in PROPERTIES}
    values[STATE_DIR] = str(context.settings.state_root)
    values |= {
        name: value for name, value in context.settings.properties.items() if not _is_secret(name)
    }
    values |= context.overrides
    listed = [
        {
            "name": name,
            "scope": "KSQL",
            "value": value,
            "editable": PROPERTIES[name].editable if name in PROPERTIES else True,
        }
        for name, value in sorted(values.items())
    ]
    set_here = set(context.settings.properties) | set(context.overrides)
    return entity(
        "properties",
        text,
        properties=listed,
        overwrittenProperties=sorted(context.overrides),
        defaultProperties=sorted(set(values) - set_here),
    )


def _is_secret(name: str) -> bool:
    words = ("password", "secret", "jaas", "credential", "keystore.key", "user.info", "token")
    return any(word in name for word in words)
