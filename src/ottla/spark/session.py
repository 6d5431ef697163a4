"""Spark, started: with the settings that short streaming jobs want.

spark = session.start()                                  on this machine, all cores
spark = session.start(master="spark://host:7077")        on a cluster (also yarn, k8s://...)
spark = session.start(remote="sc://host:15002")          through a Spark Connect server
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.progress import step
from ottla.spark import archive, planners
from ottla.spark import java as javas
from ottla.spark.gateway import Gateway, Launch, has_own_setup
from ottla.spark.java import Java, StartError
from ottla.spark.redaction import REDACTED, REDACTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StartError", "start"]

SETTINGS: Final[Mapping[str, str]] = {
    REDACTION: REDACTED,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Wherever Spark runs."""
DRIVER_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Where the driver is ours: no web page, no bars drawn over what the user reads."""
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Hadoop's local file system forks processes for each checkpoint file: 100 to 200 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Where all of Spark is in one process on this machine."""
JAVA_OPTIONS: Final = "OTTLA_SPARK_JAVA_OPTIONS"
"""More options for the JVM, wherever a process of ours starts one."""
FIRST_COMPILER: Final = ("-XX:TieredStopAtLevel=1",)
"""For jobs whose records go through the JVM in cells, many at a time. Nothing in it is hot: Java's
second compiler would only take the CPU from those for whom it compiles."""
HEAP: Final = "1g"
APP_NAME: Final = "spark.app.name"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_STARTING = threading.Lock()
_ahead: list[Launch] = []


def start(
    *,
    master: str = "local[*]",
    remote: str | None = None,
    app_name: str = "ottla",
    heap: str = HEAP,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    java: Java | None = None,
    java_options: Sequence[str] = (),
) -> SparkSession:
    """The session of this process: a new one, or the one there is.

    `settings` go over ours. `log` is a file that takes Spark's own log; without one only what is
    fatal is printed. Can be called in any thread, and by several at once.
    """
    given = dict(settings or {})
    if remote is not None:
        return _connected(remote, {**SETTINGS, **given})
    wanted = {**_wanted(master, app_name, heap), **given}
    set_python(master)
    with _STARTING:
        if _has_jvm():
            return _session(wanted)
        # With a log of its own it starts behind a prompt that must not be drawn over.
        with step(f"Spark starts ({master}, heap {heap})", shown=log is None):
            _start_jvm(wanted, log, java, java_options)
            return _session(wanted)


def launch_ahead(*, master: str, heap: str = HEAP, java_options: Sequence[str] = ()) -> None:
    """Starts the JVM now, for a `start` with the same words that comes soon: what is imported and
    looked up until then costs no time. What is wrong is told by `start`."""
    with _STARTING, contextlib.suppress(StartError):
        if _ahead or has_own_setup() or _has_jvm():
            return
        set_python(master)
        settings = _wanted(master, "ottla", heap)
        options = _with_environment(java_options)
        _ahead.append(_launched(settings, None, javas.find(), options))
        atexit.register(_end_ahead)


def lives(spark: SparkSession) -> bool:
    """Whether it can be used: its JVM is there, and has not ended Spark by itself."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return True  # Spark Connect, whose server is not ours to look after
    process = getattr(context._gateway, "proc", None)
    if context._jsc is None or (process is not None and process.poll() is not None):
        return False
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        return False


def process_of(spark: SparkSession) -> int:
    """Of its JVM; of ours if that one is elsewhere, as with Spark Connect."""
    context = getattr(spark, "_sc", None)
    process = None if context is None else getattr(context._gateway, "proc", None)
    return os.getpid() if process is None else int(process.pid)


def _wanted(master: str, app_name: str, heap: str) -> dict[str, str]:
    return {
        **settings_for(master),
        "spark.master": master,
        APP_NAME: app_name,
        "spark.driver.memory": heap,
    }


def settings_for(master: str) -> dict[str, str]:
    """What we set by ourselves for such a master."""
    local = cores(master)
    if local is None:
        return {**SETTINGS, **DRIVER_SETTINGS}
    partitions = {"spark.sql.shuffle.partitions": str(local)}
    return {**SETTINGS, **DRIVER_SETTINGS, **LOCAL_SETTINGS, **partitions}


def cores(master: str) -> int | None:
    """Of a local master; None for a cluster, which has its own."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    number = found[1] or "1"
    return len(os.sched_getaffinity(0)) if number == "*" else max(1, int(number))


def set_python(master: str) -> None:
    """Workers on this machine are of the interpreter that runs now; a cluster may have its own."""
    if cores(master) is not None:
        os.environ["PYSPARK_PYTHON"] = planners.python()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _start_jvm(
    settings: Mapping[str, str], log: Path | None, java: Java | None, options: Sequence[str]
) -> None:
    found = java or javas.find()
    options = _with_environment(options)
    if has_own_setup():
        # spark-env.sh and spark-defaults.conf are for Spark's own scripts: so they start it.
        os.environ["JAVA_HOME"] = str(found.home)
        return
    launch = _of_before(settings, options, plain=not (log or java))
    launch = launch or _launched(settings, log, found, options)
    try:
        import pyspark.sql  # noqa: F401  while the JVM starts

        _hand_over(launch.wait())
    except BaseException:
        launch.process.kill()
        raise


def _launched(
    settings: Mapping[str, str], log: Path | None, java: Java, options: Sequence[str]
) -> Launch:
    """A JVM on its way, and beside it the process that Spark's Python processes come from."""
    if archive.is_missing(java) and set(options) <= set(FIRST_COMPILER):
        archive.make_beside_us()
    launch = Launch(java, settings, log=log, java_options=[*archive.options(java), *options])
    if cores(settings["spark.master"]) is not None:
        planners.start(launch.process.pid, launch.environment)
    return launch


def _with_environment(options: Sequence[str]) -> list[str]:
    return [*options, *os.environ.get(JAVA_OPTIONS, "").split()]


def _end_ahead() -> None:
    """Nobody came for it."""
    while _ahead:
        _ahead.pop().end()


def _of_before(
    settings: Mapping[str, str], options: Sequence[str], *, plain: bool
) -> Launch | None:
    """The JVM that was started ahead, if it is what is wanted now."""
    if not _ahead:
        return None
    launch = _ahead.pop()
    # All settings count but the name: some hold for the JVM, some for what it fetches at first.
    same = {**launch.settings, APP_NAME: ""} == {**settings, APP_NAME: ""}
    if plain and same and set(options) <= set(launch.java_options):
        return launch
    launch.end()
    return None


def _hand_over(gateway: Gateway) -> None:
    """PySpark takes a JVM that is there from two variables. They must not stay: a process that this
    one starts would take the same JVM for its own."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    names = {
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.secret,
    }
    os.environ.update(names)
    try:
        connected = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in names:
            del os.environ[name]
    connected.proc = gateway.process
    SparkContext._ensure_initialized(gateway=connected)


def _has_jvm() -> bool:
    """Whether this process has one that lives; one that died is forgotten."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True  # spark-submit has started us
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is None:
        return False
    process = getattr(gateway, "proc", None)
    if process is None or process.poll() is None:
        return True
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    return False


def _session(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _interrupts_as_they_were():
        spark = builder.getOrCreate()
    _without_last_words(spark)
    return spark


def _without_last_words(spark: SparkSession) -> None:
    """PySpark prints a traceback when the JVM ends before this process, which is how both end."""
    server = spark.sparkContext._accumulatorServer

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            type(server).handle_error(server, request, address)  # type: ignore[arg-type]

    server.handle_error = handle_error  # type: ignore[method-assign, assignment]


def _connected(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """No JVM here. A server keeps to itself what was decided when it started."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    for name, value in settings.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


@contextlib.contextmanager
def _interrupts_as_they_were() -> Iterator[None]:
    """PySpark makes Ctrl-C cancel every job of the process. In a shell or a server it is meant for
    one of many queries, and whoever waits for that one ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
