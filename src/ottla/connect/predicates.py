"""Predicates: they select the records that a transform applies to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.configurable import Configurable
from ottla.connect.data import ConnectRecord
from ottla.connect.validators import every, non_empty_string, regex
from ottla.rows.java.regular_expressions import compile_regular_expression


class Predicate(Configurable):
    """`test` is called for each record."""

    def test(self, record: ConnectRecord) -> bool:
        raise NotImplementedError


class HasHeaderKey(Predicate):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "name", ConfigType.STRING, doc="The header's name.", validator=non_empty_string
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._name = self.config_def().parse(props)["name"]

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "pattern",
            ConfigType.STRING,
            doc="A regular expression that must match the whole topic name.",
            validator=every(non_empty_string, regex),
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._pattern = compile_regular_expression(self.config_def().parse(props)["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
