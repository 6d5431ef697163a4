"""Questions: SHOW, DESCRIBE, EXPLAIN, answered from a snapshot and from the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.sql.catalog import PersistentQuery, schema_text
from ottla.sql.engine import entities
from ottla.sql.engine.changes import State
from ottla.sql.engine.cluster import Cluster
from ottla.sql.engine.entities import Entity, entity
from ottla.sql.functions import BUILTIN
from ottla.sql.plan.explain import describe as explain
from ottla.sql.plan.stages import Plan
from ottla.sql.settings import PROPERTIES, STATE_DIR, Settings
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
"""States of queries that run as soon as what they wait for is there."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """How a query does."""

    state: str
    cause: str = ""
    progress: Mapping[str, Any] | None = None

    @property
    def error(self) -> str:
        """The cause, if something is wrong: a query that only waits has a cause, too."""
        return "" if self.state in WAITING else self.cause


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question is answered from."""

    state: State
    cluster: Cluster
    settings: Settings
    queries: Mapping[str, QueryFacts]
    pushed: Mapping[str, str]
    """Push queries that are open on this server, and their texts."""
    overrides: Mapping[str, str]
    variables: Mapping[str, str]
    host: str
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """By topic: how many of its records could not be read, and why the last could not."""

    @property
    def states(self) -> dict[str, str]:
        return {id_: each.state for id_, each in self.queries.items()}


def show(statement: Show, asked: Asked) -> Entity:
    text, state = statement.text, asked.state
    match statement.subject:
        case Subject.STREAMS | Subject.TABLES:
            kind = SourceKind(statement.subject.value[:-1])
            if statement.extended:
                return _descriptions(text, kind, asked, extended=True)
            return entities.source_list(text, kind, state.catalog.of_kind(kind))
        case Subject.TOPICS | Subject.ALL_TOPICS:
            return _topics(statement, asked)
        case Subject.QUERIES:
            return _queries(statement, asked)
        case Subject.TYPES:
            return entities.type_list(text, state.catalog)
        case Subject.FUNCTIONS:
            return _functions(text)
        case Subject.PROPERTIES:
            return _properties(text, asked)
        case Subject.VARIABLES:
            listed = [{"name": name, "value": value} for name, value in asked.variables.items()]
            return entity("variables", text, variables=listed)
    raise AssertionError(f"{statement.subject} are asked of a Connect worker")


def _topics(statement: Show, asked: Asked) -> Entity:
    every = statement.subject is Subject.ALL_TOPICS
    topics = [
        each
        for each in asked.cluster.describe().values()
        if every or not each.name.startswith(INTERNAL_PREFIXES)
    ]
    readers = asked.cluster.readers() if statement.extended else None
    return entities.topic_list(statement.text, topics, readers)


# -- streams and tables


def describe(statement: Describe, asked: Asked) -> Entity:
    described = _description(statement.name, asked, statement.extended)
    return entity("sourceDescription", statement.text, sourceDescription=described)


def describe_sources(statement: DescribeSources, asked: Asked) -> Entity:
    return _descriptions(statement.text, statement.kind, asked, extended=statement.extended)


def _descriptions(text: str, kind: SourceKind, asked: Asked, *, extended: bool) -> Entity:
    described = [
        _description(each.name, asked, extended) for each in asked.state.catalog.of_kind(kind)
    ]
    return entity("source_descriptions", text, sourceDescriptions=described)


def _description(name: str, asked: Asked, extended: bool) -> dict[str, Any]:
    catalog = asked.state.catalog
    source = catalog.sources.get(name)
    if source is None:
        raise SqlError(
            f"Could not find STREAM/TABLE '{name}' in the Metastore",
            remedy="SHOW STREAMS; and SHOW TABLES; list what there is.",
        )
    facts = asked.cluster.describe([source.topic]).get(source.topic) if extended else None
    causes = [
        f"{id_}: {asked.queries[id_].error}"
        for id_ in (*catalog.readers(name), *catalog.writers(name))
        if id_ in asked.queries and asked.queries[id_].error
    ]
    causes += [asked.unreadable[source.topic]] if source.topic in asked.unreadable else []
    return entities.source_description(
        source,
        catalog,
        facts,
        extended=extended,
        states=asked.states,
        error_stats="\n".join(causes) if extended else "",
    )


# -- queries


def _queries(statement: Show, asked: Asked) -> Entity:
    state = asked.state
    failed = {id_: each.query for id_, each in state.failures.items()}
    listed = {**state.catalog.queries, **failed}
    if statement.extended:
        described = [_query_description(each, asked) for each in listed.values()]
        return entity("query_descriptions", statement.text, queryDescriptions=described)
    entries = []
    for id_, query in listed.items():
        sink = state.catalog.sources.get(query.sink)
        topics = [sink.topic] if sink else []
        facts = asked.queries.get(id_, QueryFacts("UNKNOWN"))
        entry = entities.query_entry(id_, query.text, [query.sink], topics, facts.state)
        if facts.cause:
            entry["cause"] = facts.cause
        entries.append(entry)
    entries += [
        entities.query_entry(id_, text, [], [], "RUNNING", kind="PUSH")
        for id_, text in asked.pushed.items()
    ]
    return entity("queries", statement.text, queries=entries)


def explain_running(query_id: str, text: str, asked: Asked) -> Entity:
    failure = asked.state.failures.get(query_id.upper())
    query = failure.query if failure else asked.state.catalog.query(query_id)
    described = _query_description(query, asked)
    return entity("queryDescription", text, queryDescription=described)


def explain_plan(text: str, plan: Plan) -> Entity:
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


def _query_description(query: PersistentQuery, asked: Asked) -> dict[str, Any]:
    plan = asked.state.plans.get(query.id)
    facts = asked.queries.get(query.id, QueryFacts("UNKNOWN"))
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
        "ksqlHostQueryStatus": {asked.host: facts.state},
        "queryType": "PERSISTENT",
        "queryErrors": errors if facts.error else [],
        "tasksMetadata": [],
        "state": facts.state,
        "progress": dict(facts.progress or {}),
    }
    if facts.cause:
        described["cause"] = facts.cause
    topics = [
        source.topic for name in query.reads if (source := asked.state.catalog.sources.get(name))
    ]
    described["unreadable"] = [
        asked.unreadable[each] for each in topics if each in asked.unreadable
    ]
    return described


# -- functions


def _functions(text: str) -> Entity:
    listed = [
        {"name": each.name, "type": each.kind.value, "category": each.family} for each in BUILTIN
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
                    "isVariadic": place == each.variadic,
                }
                for place, parameter in enumerate(each.parameters)
            ],
            "returnType": str(each.result),
            "description": function.description,
        }
        for each in function.signatures
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


def _properties(text: str, asked: Asked) -> Entity:
    values = {name: asked.settings.get(name) for name in PROPERTIES}
    values[STATE_DIR] = str(asked.settings.state_root)
    values |= {
        name: value for name, value in asked.settings.properties.items() if not _is_secret(name)
    }
    values |= asked.overrides
    listed = [
        {
            "name": name,
            "scope": "KSQL",
            "value": value,
            "editable": PROPERTIES[name].editable if name in PROPERTIES else True,
        }
        for name, value in sorted(values.items())
    ]
    set_here = set(asked.settings.properties) | set(asked.overrides)
    return entity(
        "properties",
        text,
        properties=listed,
        overwrittenProperties=sorted(asked.overrides),
        defaultProperties=sorted(set(values) - set_here),
    )


def _is_secret(name: str) -> bool:
    words = ("password", "secret", "jaas", "credential", "keystore.key", "user.info", "token")
    return any(word in name for word in words)
