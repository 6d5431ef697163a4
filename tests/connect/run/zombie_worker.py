"""A worker that runs one connector on a Spark of its own, until it is killed: to be frozen.

Its argument is one JSON object. It says every state of the connector, and what it logs. As long as
the file `hold` is there it stands where it is about to commit.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.client.record import TopicPartition
from ottla.connect.run import runner
from ottla.connect.run.seat import Seat
from ottla.connect.run.worker import Worker
from ottla.queries import lifecycle
from ottla.spark import session

FOR_EVER_S = 1e6
COMMIT = Seat.commit


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    lifecycle.SUPERSEDED_MS = int(FOR_EVER_S * 1000)  # type: ignore[misc]
    hold = Path(given["hold"])

    def commit(seat: Seat, offsets: Mapping[TopicPartition, int]) -> None:
        if hold.exists():
            print("about to commit", dict(offsets), flush=True)
        while hold.exists():
            time.sleep(0.01)
        COMMIT(seat, offsets)

    Seat.commit = commit  # type: ignore[method-assign]
    runner.start(
        given["name"],
        given["config"],
        spark=lambda: session.start(master="local[1]", heap="512m"),
        worker=Worker(given["worker"]),
        on_state=lambda status: print("state", status.state, flush=True),
    )
    while True:
        time.sleep(FOR_EVER_S)


if __name__ == "__main__":
    main()
