"""Debezium's connector for PostgreSQL (Apache License), as a plugin of Kafka's Connect worker.

Confluent's JDBC connector has another licence, and Aiven's is not on Maven Central. Debezium's is
made for changes; its first step, the snapshot of a table, is what our JDBC source does.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks import apache_kafka

VERSION = "3.6.1.Final"
COORDINATE = f"io.debezium:debezium-connector-postgres:{VERSION}:tar.gz:plugin"
FOLDER = apache_kafka.REPOSITORY / ".cache" / f"debezium-{VERSION}"
UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack"
FETCH_S_MAX = 600.0


def ensure() -> Path:
    """The folder for `plugin.path`; fetched from Maven Central once."""
    if not any(FOLDER.glob("*/debezium-connector-postgres-*.jar")):
        maven = shutil.which("mvn")
        if maven is None:
            raise apache_kafka.MissingError("no Maven found, which fetches Debezium's connector")
        command = [maven, "--quiet", "--batch-mode", UNPACK, f"-Dartifact={COORDINATE}"]
        command.append(f"-DoutputDirectory={FOLDER}")
        with tempfile.TemporaryDirectory() as left:  # for Maven's own notes
            subprocess.run(command, check=True, timeout=FETCH_S_MAX, cwd=left)
    return FOLDER
