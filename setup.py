"""The hot modules, compiled by mypyc when OTTLA_COMPILE=1 (docs/decisions/0007-mypyc.md).

Everything else about the build is in pyproject.toml. Without the variable the same source runs
interpreted.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from setuptools import setup

# What a Produce or a Fetch passes through, from the socket to the disk and back, and what all
# records of a compacted topic do; what Spark reads, on its way to Arrow's columns.
# Compiled together, calls from one to the other are plain C calls.
HOT = [
    "slices",
    "wire/primitives",
    "wire/messages/produce",
    "wire/messages/fetch",
    "wire/connection",
    "records/batch",
    "records/record",
    "records/schema_frames",
    "storage/appended",
    "storage/log",
    "storage/scan",
    "storage/segment",
    "storage/segments",
    "storage/index",
    "storage/producers",
    "storage/epochs",
    "storage/cleaner_records",
    "storage/cleaner_transactions",
    "storage/cleaner_work",
    "replica/waiting",
    "replica/commits",
    "replica/leader",
    "replica/partition",
    "broker/context",
    "broker/fetch_reading",
    "broker/partition_data",
    "broker/sessions",
    "broker/handlers/produce",
    "broker/handlers/fetch",
    "net/outbound",
    "net/inbound",
    "metrics",
    "broker/metrics/traffic",
    "broker/metrics/meters",
    "broker/metrics/requests",
    "spark/columns",
    "rows/formats/avro/readers",
    "rows/formats/avro/skips",
    "rows/formats/avro/writers",
]


def compiled() -> list[Any]:
    if os.environ.get("OTTLA_COMPILE") != "1":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("OTTLA_COMPILE=1, but mypy is not installed: building without", file=sys.stderr)
        return []
    os.environ["MYPYPATH"] = "src"
    return list(mypycify([f"src/ottla/{name}.py" for name in HOT], opt_level="3"))


setup(ext_modules=compiled())
