"""How a sink connector reads its topics: the options of `format("ottla")`, from its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.connect.errors import ConfigException
from ottla.connect.run.orders import Job
from ottla.spark.options import ReadOptions, read_options

BATCH_RECORDS_MAX: Final = 200_000
# The group, and what the source knows by other names, or decides by itself.
NOT_FOR_THE_SOURCE: Final = frozenset(
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


def sink_options(job: Job) -> ReadOptions:
    return read_options(spark_options(job), streaming=True)


def spark_options(job: Job) -> dict[str, str]:
    """Topics that are not there yet are waited for; what retention took is gone, as in Kafka."""
    settings = job.worker.consumer(job.config)
    return {
        "kafka.bootstrap.servers": job.worker.bootstrap_servers,
        **{f"kafka.{name}": v for name, v in settings.items() if name not in NOT_FOR_THE_SOURCE},
        "subscribePattern": topics_pattern(job.config),
        "startingOffsets": "earliest" if resets_to_earliest(settings) else "latest",
        "maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX),
        "failOnDataLoss": "false",
        "includeHeaders": "true",
    }


def resets_to_earliest(settings: Mapping[str, str]) -> bool:
    """Connect's consumers begin with the first record, unless they are told otherwise."""
    return settings.get("auto.offset.reset", "earliest").lower() != "latest"


def topics_pattern(config: Mapping[str, str]) -> str:
    names = [each.strip() for each in config.get("topics", "").split(",") if each.strip()]
    if names:
        return "|".join(re.escape(each) for each in names)
    if config.get("topics.regex"):
        return config["topics.regex"]
    raise ConfigException("Must configure one of topics or topics.regex")
