"""State ownership: which state directory belongs to the queries of a service.

A server that got the lease without the checkpoints would restart every query from the beginning,
and overwrite correct counts with smaller ones. So the server that runs the queries records the id
of its state directory in the broker: as offset metadata of a consumer group without members.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.client import Admin, TopicPartition
from ottla.client.delivery import Setting
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.checkpoints import read_json, write_json
from ottla.sql.ksql_config import STATE_MOVED

FILE: Final = "state.json"


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """A state directory: an id stored in it, and the host and path where it was last used."""

    id: str
    where: str

    @staticmethod
    def of(folder: Path) -> StateDirectory:
        stored = read_json(folder / FILE)
        if stored is None:
            stored = {"id": str(uuid.uuid4())}
            write_json(folder / FILE, stored)
        return StateDirectory(stored["id"], f"{socket.gethostname()}:{folder}")


class StateOwnership:
    """The recorded state directory. `moved`: the operator has confirmed that this one is right."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str,
        group: str,
        moved: bool = False,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._partition = TopicPartition(topic, 0)
        self._group = group
        self._moved = moved
        self._settings = dict(settings or {})

    def claim(self, home: StateDirectory) -> str:
        """Claim the state directory for the queries; return why that is refused, or an empty
        string."""
        with self._admin() as admin:
            known = self._known(admin)
            if known is not None and known.id != home.id and not self._moved:
                return (
                    f"the state of the queries is in {known.where}, but this server uses"
                    f" {home.where}, where they would start from the beginning. Start it with the"
                    f" other --state-dir, or with --override {STATE_MOVED}=true if that one is"
                    " lost."
                )
            if known != home:
                text = json.dumps({"id": home.id, "where": home.where})
                admin.groups.alter_offsets(self._group, {self._partition: 0}, metadata=text)
        return ""

    def release(self) -> None:
        """Forget the state directory, because no query is left that has state in it."""
        with self._admin() as admin:
            error = admin.groups.delete(self._group)[self._group]
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error

    def _admin(self) -> Admin:
        return Admin(self._bootstrap_servers, settings=self._settings)

    def _known(self, admin: Admin) -> StateDirectory | None:
        try:
            found = admin.groups.offsets(self._group).get(self._partition)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise
        if found is None or not found.metadata:
            return None
        data = json.loads(found.metadata)
        return StateDirectory(data["id"], data["where"])
