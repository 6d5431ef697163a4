"""Registry states for tests: decisions apply at once, without a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.records.record import Record
from ottla.registry.decisions.look_up_same import look_up_same
from ottla.registry.decisions.register import SchemaRegistration, decide_register
from ottla.registry.parsed_schema_cache import ParsedSchemaCache
from ottla.registry.registry_change import RegistryChange
from ottla.registry.schema_request import read_schema_request
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema

T = TypeVar("T")

INT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
INT_AND_DEFAULT = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},'
    '{"name":"b","type":"int","default":0}]}'
)
INT_AND_MORE = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'
)


class MemoryRegistry:
    """The records in the order in which a topic would have them."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.schemas = ParsedSchemaCache()
        self.log: list[Record] = []

    def write(self, decide: Callable[[RegistryState], RegistryChange[T]]) -> T:
        decision = decide(self.state)
        for key, value in decision.records:
            record = Record(len(self.log), 1000 + len(self.log), key, value)
            self.log.append(record)
            self.state.apply(record)
        return decision.answer

    def register(self, subject: str, text: str, **fields: object) -> StoredSchema:
        request = read_schema_request({"schema": text, **fields})
        desired = SchemaRegistration(subject, request)
        return self.write(lambda state: decide_register(state, self.schemas, desired))

    def look_up(self, subject: str, text: str, **fields: object) -> StoredSchema | None:
        request = read_schema_request({"schema": text, **fields})
        desired = SchemaRegistration(subject, request)
        return look_up_same(self.state, self.schemas, desired, deleted=False)

    def replayed(self) -> RegistryState:
        state = RegistryState()
        for record in self.log:
            state.apply(record)
        return state

    def compacted(self) -> RegistryState:
        """A state that sees only the last record of each key."""
        last = {record.key: record for record in self.log}
        state = RegistryState()
        for record in sorted(last.values(), key=lambda newest: newest.offset):
            state.apply(record)
        return state
