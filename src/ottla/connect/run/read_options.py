"""How a sink connector reads its topics: its consumer settings as options of `format("ottla")`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.connect.errors import ConfigException
from ottla.connect.run.task_requests import ConnectorJob
from ottla.spark.options import ReadOptions, read_options

BATCH_RECORDS_MAX: Final = 200_000
# The group, and settings that the source has other names for, or decides itself.
EXCLUDED_CONSUMER_SETTINGS: Final = frozenset(
    {
        "group.id",
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
        "max.poll.records",
    }
)


def sink_read_options(job: ConnectorJob) -> ReadOptions:
    return read_options(spark_options(job), streaming=True)


def spark_options(job: ConnectorJob) -> dict[str, str]:
    """Topics may be created later; records deleted by retention are skipped, as in Kafka."""
    settings = job.worker.consumer(job.config)
    return {
        "kafka.bootstrap.servers": job.worker.bootstrap_servers,
        **{
            f"kafka.{name}": v
            for name, v in settings.items()
            if name not in EXCLUDED_CONSUMER_SETTINGS
        },
        "subscribePattern": topics_pattern(job.config),
        "startingOffsets": "earliest" if resets_to_earliest(settings) else "latest",
        "maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX),
        "failOnDataLoss": "false",
        "includeHeaders": "true",
    }


def resets_to_earliest(settings: Mapping[str, str]) -> bool:
    """Connect's consumers default to earliest."""
    return settings.get("auto.offset.reset", "earliest").lower() != "latest"


def topics_pattern(config: Mapping[str, str]) -> str:
    names = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    if names:
        return "|".join(re.escape(topic) for topic in names)
    if config.get("topics.regex"):
        return config["topics.regex"]
    raise ConfigException("Must configure one of topics or topics.regex")
