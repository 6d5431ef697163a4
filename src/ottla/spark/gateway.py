"""Starts the JVM of Spark's driver directly.

PySpark runs a shell script that starts one JVM, which prints the command for a second one. Starting
the second one directly saves a JVM, allows other options, and does without the module
jdk.incubator.vector, which that command requires and PyPI's Java lacks (only MLlib's linear algebra
uses it).

The handshake is PySpark's: the JVM writes its port and a secret to a file that this process names.
The JVM exits when its standard input closes, so it ends with this process, however that ends. It
runs in its own session, so that Ctrl-C on the terminal does not reach it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.extras import install_command
from ottla.spark.java import Java, StartError

START_TIMEOUT_S: Final = 120.0
LOOK_S: Final = 0.01
SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
# The packages that Spark accesses (org.apache.spark.launcher.JavaModuleOptions).
OPEN_PACKAGES: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip
GONE_WITH: Final = {"sun.security.action": 25}
JAVA_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    # After an OutOfMemoryError a dead driver, whose queries are FAILED, beats a damaged one.
    "-XX:+ExitOnOutOfMemoryError",
    # The JVM's own warnings would appear on standard output, amid what the user reads.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
# Without a level for this logger, Spark raises the root level of a shell to WARN.
SHELL_LOGGER: Final = "org.apache.spark.api.python.PythonGatewayServer"


@dataclass(frozen=True, slots=True)
class Gateway:
    process: subprocess.Popen[bytes]
    port: int
    secret: str


class Launch:
    """A JVM that is starting; meanwhile this process can import its modules."""

    def __init__(
        self,
        java: Java,
        settings: Mapping[str, str],
        *,
        log: Path | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
        self._contact = self._directory / "contact"
        self._log = log
        self.settings = dict(settings)
        self.java_options = tuple(java_options)
        logging_file = self._directory / "log4j2.properties"
        logging_file.write_text(log_settings(log))
        options = [f"-Dlog4j2.configurationFile={logging_file}", *java_options]
        command = java_command(java, options, heap=settings.get("spark.driver.memory", "1g"))
        command += submit_arguments(settings)
        self.environment = jvm_environment()
        master = settings.get("spark.master", "")
        if master.startswith("local") and "SPARK_HOME" not in os.environ:
            # With SPARK_HOME, Spark's Python processes import pyspark from a zip without bytecode,
            # which costs 1.9 s of CPU per start instead of 0.5.
            del self.environment["SPARK_HOME"]
        self.process = self._spawned(command)

    def _spawned(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        environment = {**self.environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._contact)}
        errors = None if self._log is None else self._log.open("ab")
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(f"Java does not start: {error}") from None
        finally:
            if errors is not None:
                errors.close()

    def end(self) -> None:
        """Kills a JVM that is not needed."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> Gateway:
        deadline = time.monotonic() + timeout_s
        try:
            while not self._contact.exists():
                if self.process.poll() is not None:
                    where = f"see {self._log}" if self._log else "see the lines above"
                    code = self.process.returncode
                    raise StartError(f"Spark's JVM exited with code {code} during startup: {where}")
                if time.monotonic() > deadline:
                    self.process.kill()
                    self.process.wait()
                    raise StartError(f"Spark's JVM did not start within {timeout_s:.0f} s")
                time.sleep(LOOK_S)
            return Gateway(self.process, *contact(self._contact.read_bytes()))
        finally:
            # log4j has read its configuration by now.
            shutil.rmtree(self._directory, ignore_errors=True)


def contact(data: bytes) -> tuple[int, str]:
    """Port and secret, as the JVM writes them. (It renames the file when it is complete.)"""
    port, size = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + size].decode()


def java_command(
    java: Java, options: Sequence[str] = (), *, heap: str, main: str = SUBMIT
) -> list[str]:
    """The command of a JVM with Spark's jars and options, up to the main class."""
    opened = [
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in OPEN_PACKAGES
        if java.major < GONE_WITH.get(package, sys.maxsize)
    ]
    return [
        str(java.program),
        *("-cp", ":".join(class_path())),
        f"-Xmx{heap}",
        *JAVA_OPTIONS,
        *opened,
        *options,
        main,
    ]


def submit_arguments(settings: Mapping[str, str]) -> list[str]:
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [*words, "pyspark-shell"]


def spark_home() -> Path:
    """SPARK_HOME, as for PySpark; else the package's folder, without importing it."""
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise StartError(f"Spark is not installed: {install_command('spark')}")
    return Path(found.origin).parent


def has_own_setup() -> bool:
    """True if this Spark has configuration files that its scripts read."""
    named = os.environ.get("SPARK_CONF_DIR")
    folder = Path(named) if named else spark_home() / "conf"
    return any((folder / name).exists() for name in ("spark-env.sh", "spark-defaults.conf"))


def class_path() -> list[str]:
    """The jars one by one, because a class-data archive is valid only for the same list.

    As in Spark's launcher, slf4j-api comes first, and Hadoop's configuration last.
    """
    jars = [str(jar) for jar in sorted((spark_home() / "jars").glob("*.jar"))]
    if not jars:
        raise StartError(f"There are no Spark jars in {spark_home() / 'jars'}")
    jars.sort(key=lambda path: not Path(path).name.startswith("slf4j-api-"))
    folders = [os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    return [*jars, *(folder for folder in folders if folder)]


def jvm_environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_ENV_LOADED": "1",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
    }


def log_settings(log: Path | None) -> str:
    """log4j's properties: INFO and above to a file, or only FATAL to the terminal.

    A query's failure reaches its caller as an exception. Spark also logs it as an ERROR with its
    stack, more than once, even for queries that are stopped in the middle of a batch.
    """
    if log is None:
        level = "fatal"
        appender = ["appender.out.type = Console", "appender.out.target = SYSTEM_ERR"]
    else:
        level = "info"
        appender = ["appender.out.type = File", f"appender.out.fileName = {log}"]
    return "\n".join(
        [
            "status = off",
            f"rootLogger.level = {level}",
            "rootLogger.appenderRef.out.ref = out",
            "appender.out.name = out",
            *appender,
            "appender.out.layout.type = PatternLayout",
            "appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex",
            f"logger.shell.name = {SHELL_LOGGER}",
            f"logger.shell.level = {level}",
            "",
        ]
    )
