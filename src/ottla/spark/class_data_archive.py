"""A class-data archive of Spark's classes, which later JVMs map into memory.

Half of a JVM's work in Spark's first seconds is loading 15,000 classes from 250 jars. Java can
store the result: a class-data archive (Java 17 to 23) or an AOT cache (24 and newer). While a
long-lived session runs, a background process with the lowest priority starts Spark once more and
makes a training run (training_run.py): about a minute of CPU, once per pair of Spark and Java. That
process ends with its parent, complete or not. The archive is optional: without one, or with one
that does not match, Java loads the classes from the jars.

    python -m ottla.spark.class_data_archive   creates it now
    OTTLA_SPARK_ARCHIVE=off                    neither creates nor uses one
    OTTLA_CACHE_DIR                            its folder (default ~/.cache/ottla)
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ottla.spark import gateway
from ottla.spark.java import Java, find

SWITCH: Final = "OTTLA_SPARK_ARCHIVE"
AOT_FROM: Final = 24
"""The first Java with an AOT cache. The older kind needs an archive of the JDK's own classes, which
PyPI's Java lacks."""
EXERCISE: Final = 2
"""The version of the training run; increment it to invalidate existing archives."""
ENDINGS: Final = (".aot", ".jsa")
KEPT_MAX: Final = 3
EXIT_TIMEOUT_S: Final = 600.0
LOWEST_PRIORITY: Final = 19
BESIDE: Final = "--beside"
BEGIN_AFTER_S: Final = 30.0
END_S_MAX: Final = 10.0
WORK_PREFIX: Final = "archive-"


def switched_on() -> bool:
    return os.environ.get(SWITCH, "on").lower() not in ("off", "0", "false", "no")


def options(java: Java) -> list[str]:
    """The JVM options that use the archive, if there is one."""
    path = path_for(java)
    if not switched_on() or not path.exists():
        return []
    return [f"-XX:AOTCache={path}" if java.major >= AOT_FROM else f"-XX:SharedArchiveFile={path}"]


def is_missing(java: Java) -> bool:
    return switched_on() and not path_for(java).exists()


def path_for(java: Java) -> Path:
    """One per Java and set of jars, with their times: Java rejects an archive of changed jars."""
    seen = hashlib.sha256(f"{EXERCISE} {java.program} {java.version}".encode())
    for jar in gateway.class_path():
        with contextlib.suppress(OSError):
            status = os.stat(jar)
            seen.update(f"{jar} {status.st_size} {status.st_mtime_ns}".encode())
    ending = "aot" if java.major >= AOT_FROM else "jsa"
    return directory() / f"spark-java{java.major}-{seen.hexdigest()[:16]}.{ending}"


def directory() -> Path:
    named = os.environ.get("OTTLA_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ottla"


def make_later_in_background() -> None:
    """Starts creating it after a delay, so that short commands never do."""
    timer = threading.Timer(BEGIN_AFTER_S, start_background_process)
    timer.daemon = True
    timer.start()


def start_background_process() -> subprocess.Popen[bytes] | None:
    """Starts the process that creates the archive. It ends with this process, because its standard
    input is closed then."""
    environment = {**os.environ}
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)  # Java can't archive a class path with folders
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.class_data_archive", BESIDE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError:
        return None
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S_MAX)


def _end_with_starter() -> None:
    """Waits until the parent has exited, then kills this process and all its descendants."""
    sys.stdin.buffer.read()
    for pid in [*_descendants(os.getpid()), os.getpid()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Found in /proc: the JVM has its own session, so a signal to the group would miss it."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The program's name is in parentheses and may contain any character.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found = [pid]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def make_class_data_archive(java: Java) -> Path:
    """Creates the archive: Spark runs once, and Java records the classes that it loads."""
    path = path_for(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_work_prefix(path), dir=path.parent) as folder:
        part, record = Path(folder, path.name), Path(folder, "record")
        if java.major >= AOT_FROM:
            _run_spark(java, ["-XX:AOTMode=record", f"-XX:AOTConfiguration={record}"])
            creating = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={record}"]
            command = gateway.java_command(java, [*creating, f"-XX:AOTCache={part}"], heap="1g")
            subprocess.run(
                [*command, "--version"], check=True, capture_output=True, timeout=EXIT_TIMEOUT_S
            )
        else:
            _run_spark(java, [f"-XX:ArchiveClassesAtExit={part}"])
        part.replace(path)
    _forget_old(path)
    return path


def _work_prefix(path: Path) -> str:
    """Of the folders of this archive only: others' makers may be at work."""
    return f"{WORK_PREFIX}{path.stem}-"


def _clear_work(path: Path) -> None:
    """Deletes what a process that was killed has left. The caller holds the lock of `path`."""
    for left in path.parent.glob(f"{_work_prefix(path)}*"):
        shutil.rmtree(left, ignore_errors=True)


def _run_spark(java: Java, java_options: list[str]) -> None:
    from ottla.spark import session
    from ottla.spark.training_run import training_run

    spark = session.start(master="local[2]", java=java, java_options=java_options)
    gateway_there: Any = spark.sparkContext._gateway
    process = gateway_there.proc
    training_run(spark)
    spark.stop()
    process.stdin.close()  # the JVM exits and writes the archive
    process.wait(EXIT_TIMEOUT_S)


def _forget_old(newest: Path) -> None:
    """Deletes the oldest: each takes a few hundred megabytes."""
    found = newest.parent.glob("spark-java*")
    others = [path for path in found if path.suffix in ENDINGS and path != newest]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[KEPT_MAX - 1 :]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Yields False if another process is creating the archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def main() -> int:
    os.nice(LOWEST_PRIORITY)
    if BESIDE in sys.argv:
        threading.Thread(target=_end_with_starter, daemon=True).start()
    java = find()
    path = path_for(java)
    os.environ[SWITCH] = "off"  # the training run's session must not create another one
    with _alone(path) as alone:
        if alone and not path.exists():
            _clear_work(path)
            make_class_data_archive(java)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
