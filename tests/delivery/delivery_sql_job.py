"""`ottla sql-server`, with a sink that dies at the point named in the environment.

Its arguments are one JSON object.
"""

from __future__ import annotations

import json
import os
import sys

from delivery_places import spark_settings
from delivery_spark_points import DRIVER, DyingDataSource

from ottla.cli.main import main
from ottla.spark import source

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    overrides = {**given["properties"], **spark_settings(given)}
    overrides["ottla.sql.spark.master"] = given["master"]
    os.environ[DRIVER] = str(os.getpid())
    source.register = lambda spark: spark.dataSource.register(DyingDataSource)
    sys.argv = ["ottla", "sql-server", "--port", "0"]
    for name, value in overrides.items():
        sys.argv += ["--override", f"{name}={value}"]
    sys.exit(main())
