"""Spark's classes, read and linked once and kept in a file that later JVMs map into memory.

Half of what a JVM does in the first seconds of Spark is to load 15,000 classes out of 250 jars.
Java can keep the result: a class-data archive (Java 17 to 23) or an AOT cache (24 and newer). It is
made beside a session that lasts, by a process of its own with the lowest priority, which starts
Spark once more and runs a little of everything: a minute of CPU or so, once for each pair of Spark
and Java. That process ends with the one that has started it, done or not. Nothing depends on it:
without an archive, or with one that does not fit, Java loads classes as ever.

    python -m ottla.spark.archive         makes it now
    OTTLA_SPARK_ARCHIVE=off               neither makes nor uses one
    OTTLA_CACHE_DIR                       where it lies (else ~/.cache/ottla)
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
"""The first Java with an AOT cache. The older kind builds on an archive of Java's own classes,
which PyPI's Java comes without."""
EXERCISE: Final = 2
"""Which exercise.py an archive was made with; counts up when one that is there should not do."""
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
    """What makes a JVM use the archive, if there is one."""
    path = path_for(java)
    if not switched_on() or not path.exists():
        return []
    return [f"-XX:AOTCache={path}" if java.major >= AOT_FROM else f"-XX:SharedArchiveFile={path}"]


def is_missing(java: Java) -> bool:
    return switched_on() and not path_for(java).exists()


def path_for(java: Java) -> Path:
    """One for each Java and each set of jars: reinstalled jars have other times, and Java looks."""
    seen = hashlib.sha256(f"{EXERCISE} {java.program} {java.version}".encode())
    for each in gateway.class_path():
        with contextlib.suppress(OSError):
            status = os.stat(each)
            seen.update(f"{each} {status.st_size} {status.st_mtime_ns}".encode())
    ending = "aot" if java.major >= AOT_FROM else "jsa"
    return directory() / f"spark-java{java.major}-{seen.hexdigest()[:16]}.{ending}"


def directory() -> Path:
    named = os.environ.get("OTTLA_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ottla"


def make_beside_us() -> None:
    """Starts the making in a while: a command of a few seconds need not begin it."""
    timer = threading.Timer(BEGIN_AFTER_S, begin_beside_us)
    timer.daemon = True
    timer.start()


def begin_beside_us() -> subprocess.Popen[bytes] | None:
    """It ends with this process, however that ends: by then its standard input is closed."""
    environment = {**os.environ}
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)  # a folder in the class path can't be archived
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.archive", BESIDE],
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
    """Waits until whoever has started us is gone, and goes with all that we have started."""
    sys.stdin.buffer.read()
    for pid in [*_descendants(os.getpid()), os.getpid()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """By /proc: the JVM has a session of its own, so that no signal to a group would find it."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program stands in parentheses, and may have any letter in it.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found[1:]


def make(java: Java) -> Path:
    """The archive, made now: Spark runs once, and Java writes down what it has loaded."""
    path = path_for(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=path.parent) as folder:
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


def _run_spark(java: Java, java_options: list[str]) -> None:
    from ottla.spark import session
    from ottla.spark.exercise import exercise

    spark = session.start(master="local[2]", java=java, java_options=java_options)
    gateway_there: Any = spark.sparkContext._gateway
    process = gateway_there.proc
    exercise(spark)
    spark.stop()
    process.stdin.close()  # the JVM ends, and writes
    process.wait(EXIT_TIMEOUT_S)


def _forget_old(newest: Path) -> None:
    """Those of an older Spark or Java are a few hundred megabytes that nobody maps any more."""
    found = newest.parent.glob("spark-java*")
    others = [each for each in found if each.suffix in ENDINGS and each != newest]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[KEPT_MAX - 1 :]:
        each.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """False if another process makes it at this moment."""
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
    os.environ[SWITCH] = "off"  # for the session in here, which must not make another
    with _alone(path) as alone:
        if alone and not path.exists():
            for left in path.parent.glob(f"{WORK_PREFIX}*"):  # of one that had to end
                shutil.rmtree(left, ignore_errors=True)
            make(java)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
