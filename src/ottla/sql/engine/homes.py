"""Where the queries of a service have their state: so that no server begins anew by mistake.

A server without the checkpoints would start every query again from nothing, and write smaller
counts over the right ones. So whoever runs the queries says where their state is, beside the
lease: as the metadata of an offset of a group that nobody reads with.
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
from ottla.sql.settings import STATE_MOVED

FILE: Final = "state.json"


@dataclass(frozen=True, slots=True)
class Home:
    """A state directory: an id that moves with it, and where it was when it was last used."""

    id: str
    where: str

    @staticmethod
    def of(folder: Path) -> Home:
        stored = read_json(folder / FILE)
        if stored is None:
            stored = {"id": str(uuid.uuid4())}
            write_json(folder / FILE, stored)
        return Home(stored["id"], f"{socket.gethostname()}:{folder}")


class Homes:
    """What the broker knows of it. `moved`: the operator says that all is as it should be."""

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
        self._place = TopicPartition(topic, 0)
        self._group = group
        self._moved = moved
        self._settings = dict(settings or {})

    def claim(self, home: Home) -> str:
        """Why the queries must not run with this state; or nothing, and it is theirs."""
        with self._admin() as admin:
            known = self._known(admin)
            if known is not None and known.id != home.id and not self._moved:
                return (
                    f"the state of the queries is in {known.where}, and this server has"
                    f" {home.where}, where they would begin anew. Start it with the other"
                    f" --state-dir; or with --override {STATE_MOVED}=true, if that one is lost."
                )
            if known != home:
                text = json.dumps({"id": home.id, "where": home.where})
                admin.groups.alter_offsets(self._group, {self._place: 0}, metadata=text)
        return ""

    def release(self) -> None:
        """There are no queries: whoever runs the next ones may have their state anywhere."""
        with self._admin() as admin:
            error = admin.groups.delete(self._group)[self._group]
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error

    def _admin(self) -> Admin:
        return Admin(self._bootstrap_servers, settings=self._settings)

    def _known(self, admin: Admin) -> Home | None:
        try:
            found = admin.groups.offsets(self._group).get(self._place)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise
        if found is None or not found.metadata:
            return None
        data = json.loads(found.metadata)
        return Home(data["id"], data["where"])
