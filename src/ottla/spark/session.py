"""Starts Spark with settings for short streaming batches.

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
from ottla.spark import class_data_archive, fork_server
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
"""Where this process starts the driver: no UI, no progress bars over what the user reads."""
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Hadoop's local file system forks processes for each checkpoint file: 100 to 200 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Where Spark runs in one process on this machine."""
JAVA_OPTIONS: Final = "OTTLA_SPARK_JAVA_OPTIONS"
"""An environment variable with more options for every JVM started here."""
FIRST_COMPILER: Final = ("-XX:TieredStopAtLevel=1",)
"""For jobs whose records pass through the JVM many per cell. The JVM has no hot code then, and its
second compiler would only take CPU from the Python processes."""
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
    """The session of this process: a new one, or the existing one.

    `settings` override the defaults. `log` is a file for Spark's own log; without it, only fatal
    messages are printed. Any thread may call it, also concurrently.
    """
    given = dict(settings or {})
    if remote is not None:
        return _connected(remote, {**SETTINGS, **given})
    wanted = {**_wanted(master, app_name, heap), **given}
    set_python(master)
    with _STARTING:
        if _has_jvm():
            return _session(wanted)
        # With a log file, Spark starts behind a prompt, which progress must not overwrite.
        with step(f"Spark starts ({master}, heap {heap})", shown=log is None):
            _start_jvm(wanted, log, java, java_options)
            return _session(wanted)


def launch_ahead(*, master: str, heap: str = HEAP, java_options: Sequence[str] = ()) -> None:
    """Starts the JVM for a later `start` with the same arguments, so that imports in between run in
    parallel. `start` raises the errors."""
    with _STARTING, contextlib.suppress(StartError):
        if _ahead or has_own_setup() or _has_jvm():
            return
        set_python(master)
        settings = _wanted(master, "ottla", heap)
        options = _with_environment(java_options)
        _ahead.append(_launched(settings, None, javas.find(), options))
        atexit.register(_end_ahead)


def lives(spark: SparkSession) -> bool:
    """True if the session is usable: its JVM runs and has not stopped Spark."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return True  # Spark Connect: the server has its own supervision
    process = getattr(context._gateway, "proc", None)
    if context._jsc is None or (process is not None and process.poll() is not None):
        return False
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        return False


def process_of(spark: SparkSession) -> int:
    """The pid of its JVM; this process's pid if that is elsewhere, as with Spark Connect."""
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
    """The default settings for this master."""
    local = cores(master)
    if local is None:
        return {**SETTINGS, **DRIVER_SETTINGS}
    partitions = {"spark.sql.shuffle.partitions": str(local)}
    return {**SETTINGS, **DRIVER_SETTINGS, **LOCAL_SETTINGS, **partitions}


def cores(master: str) -> int | None:
    """The cores of a local master; None for a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    number = found[1] or "1"
    return len(os.sched_getaffinity(0)) if number == "*" else max(1, int(number))


def set_python(master: str) -> None:
    """Local workers use this interpreter; a cluster may have its own."""
    if cores(master) is not None:
        os.environ["PYSPARK_PYTHON"] = fork_server.python()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _start_jvm(
    settings: Mapping[str, str], log: Path | None, java: Java | None, options: Sequence[str]
) -> None:
    found = java or javas.find()
    options = _with_environment(options)
    if has_own_setup():
        # Only Spark's own scripts read spark-env.sh and spark-defaults.conf, so they start the JVM.
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
    """Starts a JVM, and beside it the fork server for its Python processes."""
    if class_data_archive.is_missing(java) and set(options) <= set(FIRST_COMPILER):
        class_data_archive.make_later_in_background()
    launch = Launch(
        java, settings, log=log, java_options=[*class_data_archive.options(java), *options]
    )
    if cores(settings["spark.master"]) is not None:
        fork_server.start(launch.process.pid, launch.environment)
    return launch


def _with_environment(options: Sequence[str]) -> list[str]:
    return [*options, *os.environ.get(JAVA_OPTIONS, "").split()]


def _end_ahead() -> None:
    """Ends a JVM that was started ahead and not used."""
    while _ahead:
        _ahead.pop().end()


def _of_before(
    settings: Mapping[str, str], options: Sequence[str], *, plain: bool
) -> Launch | None:
    """The JVM that was started ahead, if its settings match."""
    if not _ahead:
        return None
    launch = _ahead.pop()
    # All settings but the name must match: some configure the JVM, some what it loads at startup.
    same = {**launch.settings, APP_NAME: ""} == {**settings, APP_NAME: ""}
    if plain and same and set(options) <= set(launch.java_options):
        return launch
    launch.end()
    return None


def _hand_over(gateway: Gateway) -> None:
    """Connects PySpark to the JVM through its two environment variables. They are removed again,
    because child processes would connect to the same JVM."""
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
    """True if this process has a live JVM; drops PySpark's references to a dead one."""
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
    """Suppresses PySpark's traceback for a JVM that exits before this process, as it normally
    does."""
    server = spark.sparkContext._accumulatorServer

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            type(server).handle_error(server, request, address)  # type: ignore[arg-type]

    server.handle_error = handle_error  # type: ignore[method-assign, assignment]


def _connected(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Connects to a Spark Connect server, whose static settings can't be changed."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    for name, value in settings.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


@contextlib.contextmanager
def _interrupts_as_they_were() -> Iterator[None]:
    """Restores the SIGINT handler: PySpark's cancels every job of the process, but in a shell or a
    server Ctrl-C is meant for one query, which its waiter stops."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
