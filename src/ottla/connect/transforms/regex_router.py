"""RegexRouter: sets the topic by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.errors import IllegalArgumentException
from ottla.connect.transforms.transform import R, Transform
from ottla.connect.validators import regex
from ottla.rows.java.regular_expressions import compile_regular_expression, replace_first


class RegexRouter(Transform):
    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("regex", ConfigType.STRING, importance=Importance.HIGH,
                    doc="A regular expression that must match the whole topic name.",
                    validator=regex)
            .define("replacement", ConfigType.STRING, importance=Importance.HIGH,
                    doc="The new topic name; $1 and so on are groups of the expression.")
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._pattern = compile_regular_expression(settings["regex"])
        self._replacement = str(settings["replacement"])
        self._routes: dict[str, str] = {}  # a cache: a connector has few topics

    def apply(self, record: R) -> R | None:
        topic = record.topic
        routed = self._routes.get(topic)
        if routed is None:
            routed = self._routed(topic)
            if len(self._routes) < 10_000:
                self._routes[topic] = routed
        return record if routed == topic else record.replace(topic=routed)

    def _routed(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        try:
            return replace_first(self._pattern, self._replacement, topic)
        except re.error as error:
            raise IllegalArgumentException(str(error)) from None
