"""The worker programs, each with a different client, and how they are started.

    delivery_worker.py       librdkafka (confluent-kafka): transaction version 1
    delivery_worker_aio.py   aiokafka: transaction version 1
    DeliverySource.java      the Java client: transaction version 2, transactions back to back
    deliver (franz-go)       the same in Go, where tools/setup_test_clients.sh --maven has built it

Version 2 (KIP-890) is a different protocol: each end raises the epoch, and Produce adds partitions
implicitly. Only a run with a client of that version tests it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED

HERE = Path(__file__).parent
LIBRDKAFKA, AIOKAFKA = HERE / "delivery_worker.py", HERE / "delivery_worker_aio.py"
JAVA = REPOSITORY / "tools" / "clients" / "java" / "DeliverySource.java"
# OTTLA_FRANZ_GO names another build of tools/clients/franz-go/deliver.
FRANZ_GO = Path(os.environ.get("OTTLA_FRANZ_GO", CACHE / "franz-go" / "deliver"))
JARS = CACHE / "java-client"
COMPILE_S_MAX = 120.0
# slf4j warns because it has no logger here.
FLAGS = ("-Xmx128M", "-Dslf4j.internal.verbosity=ERROR", *SHORT_LIVED)


def command(program: Path, given: Mapping[str, object], directory: Path) -> list[str]:
    """Compiled classes are cached in `directory`, the run's."""
    if program.suffix == ".py":
        return [sys.executable, str(program), json.dumps(given)]
    words = [f"{name}={value}" for name, value in given.items()]
    if program.suffix == ".java":
        path = f"{JARS}/*:{_classes(program, directory)}"
        return ["java", *FLAGS, "-cp", path, program.stem, *words]
    return [str(program), *words]


def _classes(source: Path, directory: Path) -> Path:
    classes = directory / "classes"
    if not (classes / f"{source.stem}.class").exists():
        assert list(JARS.glob("kafka-clients-*.jar")), "run tools/setup_test_clients.sh first"
        subprocess.run(
            ["javac", "-nowarn", "-proc:none", "-d", classes, "-cp", f"{JARS}/*", source],
            check=True,
            timeout=COMPILE_S_MAX,
        )
    return classes
