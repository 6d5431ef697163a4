"""TimestampRouter: sets the topic by the record's timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.errors import DataException, IllegalArgumentException
from ottla.connect.logical_types import from_millis
from ottla.connect.transforms.transform import R, Transform
from ottla.rows.java.date_format import DateFormat


class TimestampRouter(Transform):
    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("topic.format", ConfigType.STRING, "${topic}-${timestamp}", Importance.HIGH,
                    "The new topic name; may contain ${topic} and ${timestamp}.")
            .define("timestamp.format", ConfigType.STRING, "yyyyMMdd", Importance.HIGH,
                    "The format of the timestamp, in UTC: a pattern of Java's SimpleDateFormat.")
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._topic_format = str(settings["topic.format"])
        try:
            self._date_format = DateFormat(settings["timestamp.format"])
        except ValueError as error:
            raise IllegalArgumentException(str(error)) from None

    def apply(self, record: R) -> R | None:
        if record.timestamp is None:
            raise DataException(f"Timestamp missing on record: {record}")
        timestamp = self._date_format.format(from_millis(record.timestamp))
        with_topic = self._topic_format.replace("${topic}", record.topic)
        return record.replace(topic=with_topic.replace("${timestamp}", timestamp))
