"""A worker that another server starts: `python -m ottla.connect.child`.

    in   {"bootstrap.servers": "localhost:9092", ...}
    out  {"url": "http://localhost:8083", "listener": "http://:8083"}, or {"error": "..."}

One line of JSON each: the worker's properties (which have secrets, and so are no arguments), and
where it answers. What it logs goes to standard error. It ends when standard input does: with its
parent, even with one that was killed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import IO

from ottla.connect import providers
from ottla.connect.errors import ConnectException
from ottla.connect.process import listening, log_to_terminal, until_told
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.settings import Settings

log = logging.getLogger("ottla.connect")


def main() -> int:
    """0 after an orderly end; 1 if the worker can't be, which was told."""
    orders, answers = _taken(0, "r"), _taken(1, "w")
    properties = json.loads(orders.readline())
    log_to_terminal(verbose=False)
    with until_told() as stopping:
        threading.Thread(target=_wait_for_end, args=(orders, stopping), daemon=True).start()
        try:
            spark = connect_spark(Settings(providers.own(properties)))
            worker = listening(properties, False, spark)
        except ConnectException as error:
            _tell(answers, error=str(error))
            return 1
        try:
            with worker:
                _tell(answers, url=worker.local_url, listener=worker.listener)
                stopping.wait()
                log.info("connectors stop, and go on from here at the next start")
        finally:
            spark.stop()
    return 0


def _taken(descriptor: int, mode: str) -> IO[str]:
    """Standard input or output for us alone: nothing that runs here reads or writes there."""
    own = os.dup(descriptor)
    other = os.open(os.devnull, os.O_RDONLY) if mode == "r" else os.dup(2)
    os.dup2(other, descriptor)
    os.close(other)
    return os.fdopen(own, mode, encoding="utf-8")


def _wait_for_end(orders: IO[str], stopping: threading.Event) -> None:
    orders.read()
    stopping.set()


def _tell(answers: IO[str], **fields: str) -> None:
    with answers:
        answers.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    sys.exit(main())
