"""A broker as a process of its own: logging, signals, the line that says where it listens."""

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
from ottla.cluster.store import StoreError as MetaStoreError
from ottla.config import BROKER_CONFIGS, ConfigError, ServerConfig
from ottla.errors import KafkaError
from ottla.net.loop import run as run_loop
from ottla.spelling import did_you_mean
from ottla.storage.store import StoreError

log = logging.getLogger("ottla.broker")

# The collector looks at the youngest objects after this many allocations. A broker's garbage is
# nearly all freed by reference counts; at Python's 700 the collector costs more than it finds.
GC_THRESHOLD = 50_000


class RegistryBeside(Protocol):
    """A schema registry in the same process."""

    @property
    def url(self) -> str: ...

    def stop(self) -> None: ...


# Starts it, once the broker's address is known.
Beside = Callable[[str], RegistryBeside]

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(config: ServerConfig, *, beside: Beside | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the process's exit code.

    A signal before the broker serves ends the process at once, even in the middle of a recovery,
    and so does a second one while it stops: what is on disk can stand that.
    """
    started_at = time.perf_counter()
    _set_up_logging()
    log.info(
        "Ottla %s, %s build, Python %s, process %d",
        ottla.__version__,
        build.NAME,
        sys.version.split()[0],
        os.getpid(),
    )
    _raise_file_limit()
    for name in config.unknown:
        hint = did_you_mean(name, BROKER_CONFIGS)
        log.warning("unknown property %s is ignored%s", name, hint)
    for note in config.notes:
        log.info("%s", note)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_loop(_serve(config, started_at, beside))


def collect_rarely() -> None:
    gc.collect()
    gc.freeze()  # what a broker consists of is never garbage
    gc.set_threshold(GC_THRESHOLD, 50, 100)


async def _serve(config: ServerConfig, started_at: float, beside: Beside | None) -> int:
    try:
        broker = Broker(config)
        await broker.start()
    except (OSError, ConfigError, StoreError, MetaStoreError, KafkaError) as error:
        log.error("the broker can't start: %s", error)
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
        log.error("the registry can't start: %s", error)
        await broker.stop()
        return 1
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(broker.failed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    log.info("stopping")
    if registry is not None:
        await asyncio.to_thread(registry.stop)
    await broker.stop()
    log.info("stopped")
    return 1 if broker.failed.is_set() else 0


async def _start_beside(broker: Broker, beside: Beside | None) -> RegistryBeside | None:
    """It speaks to this broker over the wire, so the loop must turn meanwhile."""
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
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)  # the kernel's: works while the loop is busy
        stop.set()

    for number in SIGNALS:
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
    """A descriptor for each connection and segment: take as many as we may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
