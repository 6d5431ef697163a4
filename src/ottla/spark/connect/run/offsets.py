"""How far a connector has come: read, altered, reset; in the forms of Kafka Connect's REST.

of(name, config, worker).read()
[{"partition": {"filename": "a"}, "offset": {"position": 30}}]                      a source
[{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ottla.spark.connect.run.worker import Worker

Entry = Mapping[str, Any]


class ConnectorOffsets(Protocol):
    """The connector must be STOPPED for all but `read`. What is refused is a ConnectException."""

    def read(self) -> list[dict[str, Any]]: ...

    def alter(self, entries: Sequence[Entry]) -> str:
        """An offset of None is forgotten. Returns the sentence that REST answers with."""

    def reset(self) -> str: ...


def of(name: str, config: Mapping[str, str], worker: Worker) -> ConnectorOffsets:
    raise NotImplementedError
