"""Wheels with the hot modules compiled by mypyc, where a C compiler is at hand.

OTTLA_COMPILE=0 builds without, OTTLA_COMPILE=1 fails if it can't compile. Without a setting, a
build that can't compile says so in one line and goes on with the same source, interpreted. Editable
installs are never compiled. See docs/decisions/0050-wheels.md; the rest of the build is in
pyproject.toml.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup

# The modules that every Produce and Fetch passes through, from the socket to the disk and back, the
# cleaner's, and those between Spark's source and Arrow's columns. Compiled together, they call each
# other by plain C calls.
HOT = [
    "slices",
    "wire/fields",
    "wire/messages/produce",
    "wire/messages/fetch",
    "wire/connection",
    "records/batch",
    "records/record",
    "records/schema_frames",
    "storage/log_append_info",
    "storage/log",
    "storage/scan",
    "storage/log_segment",
    "storage/log_segments",
    "storage/index",
    "storage/producers",
    "storage/leader_epoch_cache",
    "storage/retained_records",
    "storage/cleaned_transactions",
    "storage/segment_cleaner",
    "replica/watchers",
    "replica/commit_waiters",
    "replica/follower_progress",
    "replica/partition",
    "broker/client_session",
    "broker/request_context",
    "broker/delayed_operation",
    "broker/fetch_reader",
    "broker/partition_data",
    "broker/fetch_sessions",
    "broker/handlers/produce",
    "broker/handlers/fetch",
    "net/outbox",
    "net/channel",
    "metrics",
    "broker/metrics/broker_topic_stats",
    "broker/metrics/request_metrics",
    "broker/metrics/metered_application",
    "spark/record_spans",
    "rows/formats/avro/readers",
    "rows/formats/avro/skips",
    "rows/formats/avro/writers",
]

SETTING = os.environ.get("OTTLA_COMPILE", "")
# `make lint` checks types; a build lacks the libraries that the source uses.
FLAGS = [
    "--follow-imports=silent",
    "--ignore-missing-imports",
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
]


def extensions() -> list[Extension]:
    """Compiled before setuptools asks: whether it works decides what kind of wheel this is."""
    if SETTING == "0" or "bdist_wheel" not in sys.argv:
        return []
    try:
        try_compiler()
        from mypyc.build import mypycify

        os.environ["MYPYPATH"] = "src"
        made = mypycify([*FLAGS, *(f"src/ottla/{name}.py" for name in HOT)], opt_level="3")
        build(made)
    except (Exception, SystemExit) as error:
        if SETTING == "1":
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        print(f"ottla: the wheel is not compiled, and slower: {reason}", file=sys.stderr)
        return []
    return made


def requirements() -> list[str]:
    """mypyc, in the version that the project checks its types with, if it can be of use."""
    if SETTING == "0":
        return []
    try:
        try_compiler()
    except (Exception, SystemExit):
        return []
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    return [word for word in project["dependency-groups"]["dev"] if word.startswith("mypy==")]


def try_compiler() -> None:
    """A module of one line: is there a compiler, a linker, and Python.h?"""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nPyObject *PyInit_probe(void) { return NULL; }\n")
        build([Extension("probe", [str(source)])], build_lib=folder, build_temp=folder)


def build(modules: list[Extension], **options: Any) -> None:
    distribution = Distribution({"ext_modules": modules, "package_dir": {"": "src"}})
    command = distribution.get_command_obj("build_ext")
    for name, value in options.items():
        setattr(command, name, value)
    command.ensure_finalized()
    command.run()


setup(ext_modules=extensions(), setup_requires=requirements())
