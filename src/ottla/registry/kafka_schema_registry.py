"""One instance of the registry: the log, its state, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from ottla.client.delivery import Setting
from ottla.registry.parsed_schema_cache import ParsedSchemaCache, referenced_texts
from ottla.registry.registry_change import RegistryChange
from ottla.registry.schema_log import SchemaLog
from ottla.registry.state import DEFAULT_LEVEL, RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subject_access import SubjectAccess
from ottla.registry.topic import TOPIC, SchemaTopic

GROUP: Final = "schema-registry"
WRITER: Final = "writer"

T = TypeVar("T")


class KafkaSchemaRegistry:
    """`settings` are a Kafka client's. `group_id` is schema.registry.group.id: instances with the
    same one share the topic. `access` authorizes callers; without it everything is allowed."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting] | None = None,
        topic: str = TOPIC,
        group_id: str = GROUP,
        default_level: str = DEFAULT_LEVEL,
        access: SubjectAccess | None = None,
    ) -> None:
        connect = partial(
            SchemaTopic,
            bootstrap_servers,
            settings=settings or {},
            name=topic,
            transactional_id=f"{group_id}-{WRITER}",
        )
        self.group_id = group_id
        self.access = access
        self.schemas = ParsedSchemaCache()
        self._log = SchemaLog(connect(), connect(), partial(RegistryState, default_level))

    @property
    def state(self) -> RegistryState:
        return self._log.state

    @property
    def cluster_id(self) -> str:
        return self._log.cluster_id

    async def start(self) -> None:
        await self._log.start()
        if self.access is not None:
            await self.access.start()

    async def stop(self) -> None:
        if self.access is not None:
            await self.access.stop()
        await self._log.stop()

    async def catch_up(self) -> bool:
        """True if this caught up with records that the state lacked."""
        before = self._log.position
        await self._log.catch_up()
        return self._log.position > before

    async def write(self, decide: Callable[[RegistryState], RegistryChange[T]]) -> T:
        return await self._log.write(decide)

    def text(self, schema: StoredSchema, format_name: str) -> str:
        """The schema's text in the requested format."""
        if not format_name or format_name.lower() == "default":
            return schema.text
        texts = referenced_texts(self.state, schema.subject, schema.references)
        return self.schemas.formatted(schema.kind, schema.text, texts, format_name)
