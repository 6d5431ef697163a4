"""A broker as a process: logging, signals, and the log line that says where it listens."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

import ottla
from ottla import build
from ottla.auth.audit import LOGGER as AUDIT
from ottla.broker.broker import Broker
from ottla.cluster.store import MetaStoreError as MetaStoreError
from ottla.config import BROKER_CONFIGS, ConfigError, ServerConfig
from ottla.errors import KafkaError
from ottla.net.loop import run as run_loop
from ottla.spelling import did_you_mean
from ottla.storage.store import LogStoreError

log = logging.getLogger("ottla.broker")

# The garbage collector runs after this many allocations. Reference counts free nearly everything
# in a broker, so with Python's default of 700 the collector would cost more than it finds.
GC_THRESHOLD = 50_000


class EmbeddedRegistry(Protocol):
    """A schema registry in the same process."""

    @property
    def url(self) -> str: ...

    def stop(self) -> None: ...


# Called with the broker's address, as soon as that is known.
StartRegistry = Callable[[str], EmbeddedRegistry]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_process(config: ServerConfig, *, beside: StartRegistry | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the process's exit code.

    A signal before the broker serves ends the process at once, even in the middle of a recovery,
    and so does a second one while it stops: the logs survive that, as they survive kill -9.
    """
    started_at = time.perf_counter()
    _set_up_logging()
    log.info(
        "Ottla %s, %s build, Python %s, process %d",
        ottla.__version__,
        build.BUILD_NAME,
        sys.version.split()[0],
        os.getpid(),
    )
    _raise_file_limit()
    for name in config.unknown:
        hint = did_you_mean(name, BROKER_CONFIGS)
        log.warning("Ignoring unknown property %s%s", name, hint)
    for note in config.notes:
        log.info("%s", note)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_loop(_serve(config, started_at, beside))


def collect_rarely() -> None:
    gc.collect()
    gc.freeze()  # the broker's own objects are never garbage
    gc.set_threshold(GC_THRESHOLD, 50, 100)


async def _serve(config: ServerConfig, started_at: float, beside: StartRegistry | None) -> int:
    try:
        broker = Broker(config)
        await broker.start()
    except (OSError, ConfigError, LogStoreError, MetaStoreError, KafkaError) as error:
        log.error("The broker can't start: %s", error)
        return 1
    stop = _stop_on_signals()
    collect_rarely()
    log.info(
        "Broker %d, cluster %s: %s (started in %.0f ms)",
        broker.node_id,
        broker.image.cluster_id,
        ", ".join(str(listener) for listener in broker.listeners),
        (time.perf_counter() - started_at) * 1000,
    )
    try:
        registry = await _start_beside(broker, beside)
    except (OSError, KafkaError) as error:
        log.error("The schema registry can't start: %s", error)
        await broker.stop()
        return 1
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(broker.failed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    log.info("Shutting down")
    if registry is not None:
        await asyncio.to_thread(registry.stop)
    await broker.stop()
    log.info("Shut down completed")
    return 1 if broker.failed.is_set() else 0


async def _start_beside(broker: Broker, beside: StartRegistry | None) -> EmbeddedRegistry | None:
    """In a thread: the registry speaks to this broker over the wire, so the loop has to run."""
    if beside is None:
        return None
    registry = await asyncio.to_thread(beside, broker.bootstrap_servers)
    broker.schema_validation.use(registry.url)
    return registry


def _stop_on_signals() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def received(number: signal.Signals) -> None:
        log.info("%s received; another one ends the process at once", number.name)
        for stop_signal in STOP_SIGNALS:
            loop.remove_signal_handler(stop_signal)
            signal.signal(stop_signal, signal.SIG_DFL)  # works even while the loop is busy
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, received, number)
    return stop


def _set_up_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    for name in ("ottla", AUDIT):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def _raise_file_limit() -> None:
    """Every connection and segment takes a descriptor: raise the limit as far as allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
