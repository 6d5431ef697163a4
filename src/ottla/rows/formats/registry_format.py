"""The base of formats whose payloads have a schema id of a registry in front.

A batch is split into groups by schema, and a plan that is built once per schema reads each group as
whole arrays.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from ottla.client.serdes.contract_rules import READ, WRITE, refuse_rules
from ottla.rows.errors import SqlError
from ottla.rows.formats.arrow import arrow_array, arrow_type, python_values
from ottla.rows.formats.codec import Problems
from ottla.rows.schema import Column, FormatInfo
from ottla.rows.schema_properties import SCHEMA_ID, SUBJECT
from ottla.rows.types import SqlField
from ottla.schemas import framing
from ottla.schemas.framing import FramingError, RecordSchemaId
from ottla.schemas.invalid_schema import InvalidSchema

PLANS_MAX: Final = 1000  # schemas in one topic
REGISTRIES_MAX: Final = 16
NOT_FOUND: Final = 404
CONFLICT: Final = 409

W = TypeVar("W")


def registry_of(settings: Mapping[str, str]) -> SchemaRegistry | None:
    """The client for these settings, one per process, because it caches schemas."""
    return _registry(json.dumps(dict(settings), sort_keys=True)) if settings else None


@lru_cache(REGISTRIES_MAX)
def _registry(settings: str) -> SchemaRegistry:
    return SchemaRegistry(settings=json.loads(settings))


class PayloadPlan(Protocol):
    """How payloads of one schema become columns."""

    def read(self, data: bytes, places: bytes, count: int) -> tuple[list[pa.Array], Problems]:
        """`places` has two i32 per payload, its start and end, in ascending order."""


class RegistryFormat:
    """The base of AVRO, JSON_SR and PROTOBUF. Any thread may use it, but only one at a time."""

    kind: str
    """The registry's name of the type: AVRO, JSON, PROTOBUF."""

    def __init__(
        self,
        format_: FormatInfo,
        columns: Sequence[Column],
        registry: SchemaRegistry | None,
        *,
        wrapped: bool,
    ) -> None:
        self.format = format_
        self.fields = tuple(SqlField(column.name, column.type) for column in columns)
        self.wrapped = wrapped
        self._registry = registry
        self._lock = threading.Lock()
        self._plans: dict[RecordSchemaId, PayloadPlan | str] = {}

    @property
    def registry(self) -> SchemaRegistry:
        if self._registry is None:
            raise no_registry(self.format.name)
        return self._registry

    # Reading

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        with self._lock:
            return self._read(Frames(data))

    def read_row(self, data: bytes) -> list[Any]:
        arrays, problems = self.read(pa.array([data], pa.binary()))
        if problems:
            raise ValueError(problems[0])
        return [
            python_values(array, field.type)[0]
            for array, field in zip(arrays, self.fields, strict=True)
        ]

    def _read(self, frames: Frames) -> tuple[list[pa.Array], Problems]:
        problems = frames.problems
        parts: list[list[pa.Array]] = []
        rows: list[Any] = []
        for name, chosen in frames.groups:
            plan = self._plan(name)
            if isinstance(plan, str):
                problems |= {int(row): f"{name}: {plan}" for row in frames.rows_of(chosen)}
                continue
            places, count = frames.places(chosen)
            arrays, found = plan.read(frames.data, places, count)
            if chosen is None:
                problems |= {row: f"{name}: {cause}" for row, cause in found.items()}
                return arrays, problems
            problems |= {int(chosen[row]): f"{name}: {cause}" for row, cause in found.items()}
            parts.append(arrays)
            rows.append(chosen)
        return self._merged(parts, rows, frames.count), problems

    def _merged(self, parts: list[list[pa.Array]], rows: list[Any], count: int) -> list[pa.Array]:
        """Merges the groups in row order; a row without a group is null."""
        indexes = np.full(count, -1, np.int64)
        if rows:
            order = np.concatenate(rows)
            indexes[order] = np.arange(len(order))
        taken = pa.array(indexes, mask=indexes < 0)
        found = []
        for number, field in enumerate(self.fields):
            pieces = [part[number] for part in parts]
            whole = pa.concat_arrays(pieces) if pieces else pa.nulls(0, arrow_type(field.type))
            found.append(whole.take(taken))
        return found

    def _plan(self, name: RecordSchemaId) -> PayloadPlan | str:
        """The plan, or why records of this schema can't be read. An unavailable registry is not a
        record's fault: its error fails the task, and Spark retries it."""
        found = self._plans.get(name)
        if found is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            found = self._plans[name] = self._new_plan(name)
        return found

    def _new_plan(self, name: RecordSchemaId) -> PayloadPlan | str:
        registry = self.registry
        try:
            schema = registry.by_guid(name.guid) if name.guid else registry.by_id(name.id)
            if schema.kind != self.kind:
                return f"it is a schema of type {schema.kind}, and not {self.kind}"
            refuse_rules(schema.rule_set, READ)
            return self.plan_of(schema)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return str(error)
        except (ValueError, InvalidSchema) as error:
            return str(error)

    @abstractmethod
    def plan_of(self, schema: RegisteredSchema) -> PayloadPlan:
        """Raises ValueError if the columns can't be read from it."""

    # Writing

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        columns = [
            arrow_array([value], field.type)
            for value, field in zip(values, self.fields, strict=True)
        ]
        found: bytes | None = self.write(columns, 1)[0].as_py()
        return found

    @abstractmethod
    def schema_text(self) -> str:
        """The schema of the columns, used unless SCHEMA_ID is set."""

    @abstractmethod
    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array: ...

    def written_schema(self, text: str) -> RegisteredSchema:
        """The schema of SCHEMA_ID, else this text, which is registered if necessary."""
        id_ = self.format.properties.get(SCHEMA_ID)
        if id_ is not None:
            found = self.registry.by_id(int(id_))
        else:
            found = self.registry.register(self.format.properties[SUBJECT], self.kind, text)
        refuse_rules(found.rule_set, WRITE)
        return found

    def written_by(self, text: str, make: Callable[[RegisteredSchema], W]) -> W:
        """A writer for `written_schema`. If the registry rejects that schema, a writer for the
        subject's latest version, from which the columns may have been inferred."""
        try:
            return make(self.written_schema(text))
        except SchemaRegistryError as refused:
            if refused.status != CONFLICT:
                raise
            latest = self.registry.version(self.format.properties[SUBJECT])
            refuse_rules(latest.rule_set, WRITE)
            try:
                return make(latest)
            except (ValueError, InvalidSchema):  # it lacks columns
                raise refused from None


def no_registry(format_name: str) -> SqlError:
    return SqlError(
        f"Cannot use the format {format_name}: no schema registry is configured.",
        remedy="Set ksql.schema.registry.url where the server is started: `ottla serve --registry`"
        " has one at http://127.0.0.1:8081.",
    )


class Frames:
    """The keys or values of a batch, grouped by schema."""

    def __init__(self, data: pa.Array) -> None:
        self.count = len(data)
        offsets, values = data.buffers()[1:]
        self.problems: Problems = {}
        if self.count:
            every = np.frombuffer(offsets, np.int32, self.count + 1, data.offset * 4)
        else:
            every = np.zeros(1, np.int32)
        # Only the bytes of these rows: `data` may be a small part of a large array.
        first, last = int(every[0]), int(every[-1])
        self.data: bytes = b"" if values is None else values.slice(first, last - first).to_pybytes()
        self._starts, self._ends = every[:-1] - first, every[1:] - first
        self.groups: list[tuple[RecordSchemaId, Any]] = list(self._grouped())

    def places(self, chosen: Any) -> tuple[bytes, int]:
        """The starts and ends of a group's payloads."""
        starts, ends = self._starts, self._ends
        if chosen is not None:
            starts, ends = starts[chosen], ends[chosen]
        return np.stack([starts, ends], axis=1).astype(np.int32).tobytes(), len(starts)

    def rows_of(self, chosen: Any) -> Iterable[int]:
        return range(self.count) if chosen is None else chosen

    def _grouped(self) -> Iterable[tuple[RecordSchemaId, Any]]:
        """The groups; None for all rows. Removes the frames."""
        if not self.count:
            return
        data = np.frombuffer(self.data, np.uint8)
        sizes = self._ends - self._starts
        long_enough = sizes >= framing.ID_FRAME.size
        framed = np.zeros(self.count, bool)
        framed[long_enough] = data[self._starts[long_enough]] == framing.ID_MAGIC
        rows = None if framed.all() else np.flatnonzero(framed)
        starts = self._starts if rows is None else self._starts[rows]
        if len(starts):
            ids = np.zeros(len(starts), np.int64)
            for index in range(1, framing.ID_FRAME.size):
                ids = ids << 8 | data[starts + index]
            found = np.unique(ids)
            for id_ in found:
                same = ids == id_
                chosen = np.flatnonzero(same) if rows is None else rows[same]
                yield RecordSchemaId(int(id_)), None if rows is None and len(found) == 1 else chosen
            if rows is None:
                self._starts += framing.ID_FRAME.size
            else:
                self._starts[rows] += framing.ID_FRAME.size
        if rows is not None:
            yield from self._others(np.flatnonzero(~framed))

    def _others(self, rows: Any) -> Iterable[tuple[RecordSchemaId, Any]]:
        """Handles payloads with a GUID one by one."""
        named: dict[RecordSchemaId, list[int]] = {}
        for row in rows:
            start, end = int(self._starts[row]), int(self._ends[row])
            try:
                name, begin = framing.split_frame(self.data[start:end])
            except FramingError as error:
                self.problems[int(row)] = str(error)
                continue
            self._starts[row] = start + begin
            named.setdefault(name, []).append(int(row))
        for name, chosen in named.items():
            yield name, np.array(chosen)
