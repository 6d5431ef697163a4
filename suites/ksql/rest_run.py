"""One case after the other against one server: topics, statements, inputs, queries, comparison.

ksqlDB's runner looks into its engine to see that all inputs are processed. From outside, a query
is asked again until its answer is the expected one, or the time for it is over.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import httpx

from ottla.client import Admin, Consumer
from ottla.records.record import Record
from suites.ksql.raw_producer import RawProducer
from suites.ksql.record_bytes import RecordBytes, TopicInfo
from suites.ksql.rest_cases import RestCase, is_push
from suites.ksql.rest_comparison import (
    admin_differences,
    error_differences,
    message_differences,
    query_differences,
    record_differences,
)

PARTITIONS: Final = 4
LOOK_EVERY_S: Final = 0.3
PULL_S_MAX: Final = 60.0
PUSH_S_MAX: Final = 60.0
PUSH_STARTS_S: Final = 60.0
"""From the header of a push query to its first batch."""
OUTPUT_S_MAX: Final = 30.0
EACH_UPDATE: Final = {"cache.max.bytes.buffering": "0"}
"""As ksqlDB's own runner sets it for all cases. Here for those with push queries, which show each
update of a row: the others see the last one, and judge Spark's own aggregation by it."""
KSQL: Final = "application/vnd.ksql.v1+json"
PROTOBUF: Final = "application/vnd.ksqlapi.protobuf.v1"


class Difference(AssertionError):
    """A case and the server differ."""


class OtherWords(Difference):
    """Refused with the same status and type, but another message."""


@dataclass(frozen=True, slots=True)
class Places:
    bootstrap: str
    registry: str
    server: str


class RestRun:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._admin = Admin(places.bootstrap)
        self._http = httpx.Client(base_url=places.server, timeout=60.0)
        self._bytes = RecordBytes(places.registry)
        self._producer = RawProducer(places.bootstrap)
        self._partitions: dict[str, int] = {}

    def run(self, case: RestCase) -> None:
        """Difference if the server does not answer as the case expects."""
        self._make_topics(case)
        sql = "\n".join(case.statements)
        answer = self._http.post("/ksql", json={"ksql": sql, "streamsProperties": _given(case)})
        if answer.status_code != 200:
            return _check_error(case, answer)
        admin = _json(answer.text)
        infos = self._infos()
        found: list[tuple[str, Any]] = [("admin", response) for response in admin]
        wanted = [response["query"] for response in case.responses if "query" in response]
        if not case.input_waits_for_query:
            self._produce(case, infos)
        for number, text in enumerate(case.queries):
            expected = wanted[number] if number < len(wanted) else None
            rows = self._query(case, text, expected, infos)
            if rows is None:
                return None  # the expected error
            found.append(("query", rows))
        if case.error is not None:
            raise Difference(f"not refused: {case.content['statements'][-1]}")
        if case.asks_for_protobuf:
            found += [("queryProto", self._protobuf(text)) for text in case.queries]
        self._check_outputs(case, infos)
        _check_responses(case, found)
        return None

    # Before and after

    def _make_topics(self, case: RestCase) -> None:
        partitions = {record["topic"]: PARTITIONS for record in (*case.inputs, *case.outputs)}
        partitions |= dict(_declared(case.statements))
        partitions |= {topic["name"]: topic.get("partitions", PARTITIONS) for topic in case.topics}
        self._partitions = partitions
        for name, count in partitions.items():
            self._admin.topics.create(name, partitions=count, replication_factor=1)
        for topic in case.topics:
            for side in ("key", "value"):
                self._register(topic, side)

    def _register(self, topic: Mapping[str, Any], side: str) -> None:
        schema, kind = topic.get(f"{side}Schema"), topic.get(f"{side}Format")
        if schema is None:
            return
        subject = f"{topic['name']}-{side}"
        references = []
        for reference in topic.get(f"{side}SchemaReferences", ()):
            name = reference["name"]
            referenced = {"schemaType": reference["format"], "schema": _text(reference["schema"])}
            self._ask("POST", f"/subjects/{name}/versions", referenced)
            references.append({"name": name, "subject": name, "version": 1})
        body = {"schemaType": kind, "schema": _text(schema), "references": references}
        number = topic.get(f"{side}SchemaId")
        if number is not None:
            self._ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
            body |= {"id": number, "version": 1}
        self._ask("POST", f"/subjects/{subject}/versions", body)
        if number is not None:
            self._ask("DELETE", f"/mode/{subject}", None)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        url = self._places.registry + path
        answer = httpx.request(method, url, json=body, timeout=30.0)
        if answer.status_code >= 400:
            raise Difference(f"registry: {method} {path}: {answer.text}")

    def clean(self) -> None:
        """As in ksqlDB's runner: queries, sources and topics are deleted; the server stays."""
        self._http.post("/ksql/terminate", json={"deleteTopicList": [".*"]})
        left = [name for name in self._admin.topics.names() if not name.startswith("_")]
        if left:
            self._admin.topics.delete(*left)
        subjects = httpx.get(f"{self._places.registry}/subjects?deleted=true", timeout=30.0).json()
        for permanent in ("false", "true"):
            for subject in subjects:
                url = f"{self._places.registry}/subjects/{subject}?permanent={permanent}"
                httpx.delete(url, timeout=30.0)

    # Records

    def _infos(self) -> dict[str, TopicInfo]:
        found = _json(self._http.post("/ksql", json={"ksql": "SHOW TABLES; SHOW STREAMS;"}).text)
        infos: dict[str, TopicInfo] = {}
        for listed in (*found[0]["tables"], *found[1]["streams"]):
            text = f"DESCRIBE `{listed['name']}`;"
            (described,) = _json(self._http.post("/ksql", json={"ksql": text}).text)
            info = TopicInfo.of(described["sourceDescription"])
            infos[info.topic] = info
        return infos

    def _produce(self, case: RestCase, infos: Mapping[str, TopicInfo]) -> None:
        topics = dict.fromkeys(record["topic"] for record in case.inputs)
        for topic in topics:
            info = infos.get(topic, TopicInfo(topic))
            made = [
                Record(
                    timestamp=record.get("timestamp", 0),
                    key=self._bytes.key_bytes(info, record),
                    value=self._bytes.value_bytes(info, record),
                    headers=self._bytes.headers(record),
                )
                for record in case.inputs
                if record["topic"] == topic
            ]
            self._producer.send(topic, self._partitions[topic], made)

    def _check_outputs(self, case: RestCase, infos: Mapping[str, TopicInfo]) -> None:
        topics = dict.fromkeys(record["topic"] for record in case.outputs)
        for topic in topics:
            wanted = [record for record in case.outputs if record["topic"] == topic]
            info = infos.get(topic, TopicInfo(topic))
            found = self._consumed(info, len(wanted))
            if len(found) < len(wanted):
                raise Difference(f"records of the sink: expected {len(wanted)}, got {found}")
            for expected, actual in zip(wanted, found, strict=False):
                for words in record_differences(expected, actual):
                    raise Difference(words)

    def _consumed(self, info: TopicInfo, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + OUTPUT_S_MAX
        with Consumer(
            self._places.bootstrap,
            info.topic,
            auto_offset_reset="earliest",
            settings={"isolation.level": "read_committed"},
        ) as consumer:
            while len(found) < count and time.monotonic() < deadline:
                record = consumer.poll(LOOK_EVERY_S)
                if record is not None:
                    key = self._bytes.key_of(info, record.key)
                    value = self._bytes.value_of(info, record.value)
                    found.append({"key": key, "value": value, "timestamp": record.timestamp_ms})
        return found

    # Queries

    def _query(
        self,
        case: RestCase,
        text: str,
        expected: Sequence[Any] | None,
        infos: Mapping[str, TopicInfo],
    ) -> list[Any] | None:
        """The rows; None if the query was refused as the case expects."""
        if is_push(text):
            return self._pushed(case, text, expected, infos)
        deadline = time.monotonic() + PULL_S_MAX
        while True:
            body = {"ksql": text, "streamsProperties": _given(case)}
            answer = self._http.post("/query", json=body, headers={"accept": KSQL})
            if answer.status_code != 200:
                _check_error(case, answer)
                return None
            rows: list[Any] = _json(answer.text)
            if expected is None or time.monotonic() > deadline:
                return rows
            if not list(query_differences(expected, rows, is_ordered=case.is_ordered)):
                return rows
            if case.error is not None or not _is_late(expected, rows):
                return rows
            time.sleep(LOOK_EVERY_S)

    def _pushed(
        self,
        case: RestCase,
        text: str,
        expected: Sequence[Any] | None,
        infos: Mapping[str, TopicInfo],
    ) -> list[Any] | None:
        body = {"ksql": text, "streamsProperties": _given(case)}
        parts: list[str] = []
        after_header = threading.Event()

        def produce() -> None:
            if after_header.wait(PUSH_STARTS_S):
                self._wait_until_running()
                self._produce(case, infos)

        late = threading.Thread(target=produce, daemon=True)
        if case.input_waits_for_query:
            late.start()
        with (
            httpx.Client(base_url=self._places.server, timeout=PUSH_S_MAX) as http,
            http.stream("POST", "/query", json=body, headers={"accept": KSQL}) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
                _check_error(case, answer)
                return None
            with suppress(httpx.TimeoutException):
                for part in answer.iter_text():
                    parts.append(part)
                    after_header.set()
        if case.input_waits_for_query:
            late.join()
        return _rows_of("".join(parts))

    def _wait_until_running(self) -> None:
        """Wait until every query that reads from the end has found it."""
        deadline = time.monotonic() + PUSH_STARTS_S
        while time.monotonic() < deadline:
            (listed,) = _json(self._http.post("/ksql", json={"ksql": "SHOW QUERIES;"}).text)
            if all(query["state"] == "RUNNING" for query in listed["queries"]):
                return
            time.sleep(LOOK_EVERY_S)

    def _protobuf(self, text: str) -> list[Any]:
        answer = self._http.post("/query-stream", json={"sql": text}, headers={"accept": PROTOBUF})
        if answer.status_code != 200:
            raise Difference(f"protobuf rows: {answer.text}")
        return list(_json(answer.text))


def _given(case: RestCase) -> dict[str, Any]:
    return {**(EACH_UPDATE if case.has_push_query else {}), **case.properties}


def _is_late(expected: Sequence[Any], rows: Sequence[Any]) -> bool:
    """True if the response may still become the expected one: a header does not change."""
    if rows and expected and "header" in expected[0]:
        return not list(query_differences(expected[:1], rows[:1], is_ordered=True))
    return True


def _check_error(case: RestCase, answer: httpx.Response) -> None:
    error = _json(answer.text)
    if case.error is None:
        raise Difference(f"refused: {error.get('message')} ({error.get('statementText', '')})")
    last = case.content["statements"][-1]
    for words in error_differences(case.error, answer.status_code, error, last):
        raise OtherWords(words) if words.startswith("error message") else Difference(words)


def _check_responses(case: RestCase, found: Sequence[tuple[str, Any]]) -> None:
    if len(found) < len(case.responses):
        raise Difference(f"answers: expected {len(case.responses)}, got {len(found)}")
    texts = list(case.content["statements"])
    for number, (expected, (kind, actual)) in enumerate(zip(case.responses, found, strict=False)):
        ((wanted_kind, wanted),) = expected.items()
        if wanted_kind != kind:
            raise Difference(f"answer {number}: expected {wanted_kind}, got {kind}")
        if kind == "queryProto":
            differences: Iterator[str] = message_differences(wanted, actual)
        elif kind == "admin":
            statement = texts[number] if number < len(texts) else ""
            differences = admin_differences(wanted, actual, statement)
        else:
            differences = query_differences(wanted, actual, is_ordered=case.is_ordered)
        for words in differences:
            raise Difference(words)


def _rows_of(text: str) -> list[Any]:
    """One array; one that was cut off is closed."""
    with suppress(ValueError):
        return list(_json(text))
    rows: list[Any] = []
    for line in text.removeprefix("[").split("\n"):
        with suppress(ValueError):
            rows.append(_json(line.strip().removeprefix(",").removesuffix(",")))
    return rows


def _declared(statements: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Topics that CREATE statements name, and their partitions."""
    import re

    for text in statements:
        if not re.match(r"(?i)\s*CREATE\s+(OR\s+REPLACE\s+)?(SOURCE\s+)?(STREAM|TABLE)\b", text):
            continue
        if re.search(r"(?i)\bAS\s+SELECT\b", text):
            continue
        topic = re.search(r"(?i)kafka_topic\s*=\s*'([^']+)'", text)
        count = re.search(r"(?i)partitions\s*=\s*(\d+)", text)
        if topic:
            yield topic.group(1), int(count.group(1)) if count else PARTITIONS


def _text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)
