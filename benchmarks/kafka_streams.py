"""The peer of the row `streams`: the same jobs for Kafka Streams, compiled and started."""

from __future__ import annotations

from pathlib import Path

from benchmarks import apache_kafka
from benchmarks.processes import run_tool

JARS = apache_kafka.REPOSITORY / ".cache" / "kafka-streams"
SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))
HEAP = "1g"
"""What Spark's JVM has in `ottla streams run`."""
THREADS = 2
"""As many as `local[2]` has."""
COMPILE_S_MAX = 300.0


def compiled(classes: Path) -> Path:
    """Once for a run: the jars come with `apache_kafka.ensure_kafka`."""
    if not classes.exists():
        if not any(JARS.glob(f"kafka-streams-{apache_kafka.KAFKA_VERSION}.jar")):
            raise apache_kafka.MissingError(f"no Kafka Streams in {JARS}: run {apache_kafka.SETUP}")
        compiler = str(Path(apache_kafka.java()).with_name("javac"))
        words = [
            "-nowarn",
            "-proc:none",
            "-cp",
            f"{JARS}/*",
            "-d",
            str(classes),
            *map(str, SOURCES),
        ]
        run_tool([compiler, *words], timeout_s=COMPILE_S_MAX)
    return classes


def command(classes: Path, job: str, bootstrap: str, state: Path) -> list[str]:
    class_path = f"{JARS}/*:{classes}"
    java = [apache_kafka.java(), f"-Xmx{HEAP}", "-cp", class_path, "StreamsJob"]
    return [*java, job, bootstrap, str(state), str(THREADS)]
