"""ACLs of subjects: read from their topic, and written there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.auth.acls import Acl, AclFilter
from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.delivery import Setting
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import RegistryError
from ottla.registry.subject_access import acl_log
from ottla.registry.subject_acls import SubjectAcls, decide_addition, decide_deletion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubjectRules:
    """`topic` is the registry's confluent.schema.registry.acl.topic, `group_id` its own."""

    bootstrap_servers: str
    settings: Mapping[str, Setting]
    topic: str
    group_id: str

    def find(self, acl_filter: AclFilter) -> list[Acl]:
        """Empty without the topic, which a query does not create."""
        with Admin(self.bootstrap_servers, settings=self.settings) as admin:
            if self.topic not in admin.topics.names():
                return []
        return self._write(lambda state: RegistryChange(state.index.filtered(acl_filter)))

    def add(self, acl: Acl) -> None:
        self._write(lambda state: decide_addition(state, acl))

    def delete(self, acl_filter: AclFilter) -> list[Acl]:
        if not self.find(acl_filter):
            return []
        return self._write(lambda state: decide_deletion(state, acl_filter))

    def _write(self, decide: Callable[[SubjectAcls], RegistryChange[T]]) -> T:
        try:
            return asyncio.run(self._written(decide))
        except RegistryError as error:
            raise ToolError(error.message) from None

    async def _written(self, decide: Callable[[SubjectAcls], RegistryChange[T]]) -> T:
        log = acl_log(
            self.bootstrap_servers, self.settings, topic=self.topic, group_id=self.group_id
        )
        try:
            await log.load()
            return await log.write(decide)
        finally:
            await log.stop()
