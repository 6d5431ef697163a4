"""A worker with its own Spark that runs one connector until it is killed; tests freeze it.

Its argument is one JSON object. It prints every state of the connector, and its log. As long as
the file `hold` exists, it pauses before a commit.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.client.record import TopicPartition
from ottla.connect.run import connector_runner
from ottla.connect.run.sink_group_member import SinkGroupMember
from ottla.connect.run.worker_context import WorkerContext
from ottla.queries import lifecycle
from ottla.spark import session

FOR_EVER_S = 1e6
COMMIT = SinkGroupMember.commit


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    lifecycle.SUPERSEDED_MS = int(FOR_EVER_S * 1000)  # type: ignore[misc]
    hold = Path(given["hold"])

    def commit(seat: SinkGroupMember, offsets: Mapping[TopicPartition, int]) -> None:
        if hold.exists():
            print("about to commit", dict(offsets), flush=True)
        while hold.exists():
            time.sleep(0.01)
        COMMIT(seat, offsets)

    SinkGroupMember.commit = commit  # type: ignore[method-assign]
    connector_runner.start_connector(
        given["name"],
        given["config"],
        spark=lambda: session.start(master="local[1]", heap="512m"),
        worker=WorkerContext(given["worker"]),
        on_state=lambda status: print("state", status.state, flush=True),
    )
    while True:
        time.sleep(FOR_EVER_S)


if __name__ == "__main__":
    main()
