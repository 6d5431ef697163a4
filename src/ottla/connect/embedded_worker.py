"""A worker that another server starts as its child: `python -m ottla.connect.embedded_worker`.

    in   {"bootstrap.servers": "localhost:9092", ...}
    out  {"url": "http://localhost:8083", "listener": "http://:8083"}, or {"error": "..."}

One line of JSON each: the worker's properties (on standard input, because they may hold secrets)
and its address. Logs go to standard error. The worker ends at the end of standard input, and so
with its parent, even if that is killed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import IO

from ottla.connect import config_providers
from ottla.connect.errors import ConnectException
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.worker_config import WorkerConfig
from ottla.connect.worker_process import bind_worker, log_to_terminal
from ottla.rest.stop_event import stop_event

log = logging.getLogger("ottla.connect")


def run_embedded_worker() -> int:
    """0 after an orderly end; 1 if the worker could not start, which is reported to the parent."""
    requests, replies = _take_over(0, "r"), _take_over(1, "w")
    properties = json.loads(requests.readline())
    log_to_terminal(verbose=False)
    stopping = stop_event()
    threading.Thread(target=_wait_for_end, args=(requests, stopping), daemon=True).start()
    try:
        spark = connect_spark(WorkerConfig(config_providers.resolve_worker_config(properties)))
        worker = bind_worker(properties, False, spark)
    except ConnectException as error:
        _reply(replies, error=str(error))
        return 1
    try:
        with worker:
            _reply(replies, url=worker.local_url, listener=worker.listener)
            stopping.wait()
            log.info("Stopping the connectors; they resume from here at the next start")
    finally:
        spark.stop()
    return 0


def _take_over(descriptor: int, mode: str) -> IO[str]:
    """Takes over standard input or output, so that no other code here reads or writes it."""
    own = os.dup(descriptor)
    other = os.open(os.devnull, os.O_RDONLY) if mode == "r" else os.dup(2)
    os.dup2(other, descriptor)
    os.close(other)
    return os.fdopen(own, mode, encoding="utf-8")


def _wait_for_end(requests: IO[str], stopping: threading.Event) -> None:
    requests.read()
    stopping.set()


def _reply(replies: IO[str], **fields: str) -> None:
    with replies:
        replies.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    sys.exit(run_embedded_worker())
