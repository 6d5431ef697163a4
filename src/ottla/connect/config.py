"""ConfigDef: the settings of a plugin, with types, defaults and checks, as Kafka defines them.

    CONFIG = (
        ConfigDef()
        .define("file", ConfigType.STRING, importance=Importance.HIGH, doc="Where to read.")
        .define("batch.size", ConfigType.INT, 2000, Importance.LOW, "Lines.", validator=at_least(1))
    )
    settings = CONFIG.parse({"file": "/tmp/x"})     # {"file": "/tmp/x", "batch.size": 2000}

`parse` raises ConfigException at the first error; `validate` collects all errors, and
`infos` gives REST's answer. Error texts are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Protocol

from ottla.connect.errors import ConfigException
from ottla.connect.validators import Validator
from ottla.rows.java.text import java_text

COMMA: Final = re.compile(r"\s*,\s*")


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _NoDefault.NO_DEFAULT  # the setting must be given


class ConfigType(Enum):
    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Width(Enum):
    NONE = "none"
    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


class Recommender(Protocol):
    """Possible values of a setting, given the other settings."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]: ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool: ...


class Password:
    """A string that never shows itself; `.value` is the secret."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of one setting."""

    name: str
    type: ConfigType
    default: Any = NO_DEFAULT
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    validator: Validator | None = None
    recommender: Recommender | None = None

    def info(self, prefix: str = "") -> dict[str, Any]:
        """The `definition` of REST's answer."""
        required = self.default is NO_DEFAULT
        return {
            "name": prefix + self.name,
            "type": self.type.name,
            "required": required,
            "default_value": None if required else as_text(self.default, self.type),
            "importance": self.importance.name,
            "documentation": self.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width.name,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }


@dataclass(slots=True)
class ConfigValue:
    """The value of one setting, with its errors."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True

    def info(self, type: ConfigType | None, prefix: str = "") -> dict[str, Any]:
        """The `value` of REST's answer."""
        item_type = ConfigType.STRING if type is ConfigType.LIST else type
        return {
            "name": prefix + self.name,
            "value": as_text(self.value, type),
            "recommended_values": [as_text(value, item_type) for value in self.recommended_values],
            "errors": list(self.errors),
            "visible": self.visible,
        }


Problems = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Names of settings and messages, from the values of all settings."""


class ConfigDef:
    """Settings by name, in the order they were defined."""

    def __init__(self, other: ConfigDef | None = None) -> None:
        self.keys: dict[str, ConfigKey] = dict(other.keys) if other is not None else {}
        self.groups: list[str] = list(other.groups) if other is not None else []
        self.problems: Problems = other.problems if other is not None else lambda values: ()

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,
        importance: Importance = Importance.MEDIUM,
        doc: str = "",
        *,
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: Iterable[str] = (),
        validator: Validator | None = None,
        recommender: Recommender | None = None,
    ) -> ConfigDef:
        if default is not NO_DEFAULT:
            default = parse_type(name, default, type)
        shown = name if display_name is None else display_name
        return self.add(
            ConfigKey(name, type, default, importance, doc, group, order, width, shown,
                      tuple(dependents), validator, recommender)
        )  # fmt: skip

    def add(self, key: ConfigKey) -> ConfigDef:
        if key.name in self.keys:
            raise ConfigException(f"Configuration {key.name} is defined twice.")
        if key.group is not None and key.group not in self.groups:
            self.groups.append(key.group)
        self.keys[key.name] = key
        return self

    def check(self, problems: Problems) -> ConfigDef:
        """Adds `problems`: errors between settings that are valid by themselves."""
        self.problems = problems
        return self

    def embed(self, prefix: str, group: str, order: int, other: ConfigDef) -> ConfigDef:
        """Adds another definition under a prefix; its validators see names without it."""
        for index, key in enumerate(other.in_order(), order):
            self.add(
                replace(
                    key,
                    name=prefix + key.name,
                    group=group + (f": {key.group}" if key.group is not None else ""),
                    order=index,
                    dependents=tuple(prefix + name for name in key.dependents),
                    validator=_without(prefix, key.validator),
                )
            )
        return self

    def in_order(self) -> list[ConfigKey]:
        """Kafka's order: by group, order, required first, importance, name."""
        groups = {name: index for index, name in enumerate(self.groups)}
        ranks = list(Importance)
        return sorted(
            self.keys.values(),
            key=lambda key: (
                groups.get(key.group or "", -1),
                key.order,
                key.default is not NO_DEFAULT,
                ranks.index(key.importance),
                key.name,
            ),
        )

    @property
    def names(self) -> list[str]:
        return list(self.keys)

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of all settings; raises ConfigException at the first error."""
        values = {key.name: _parsed(key, props) for key in self.keys.values()}
        for name, text in self.problems(values):
            raise ConfigException(f"{name}: {text}")
        return values

    def validate(self, props: Mapping[str, Any]) -> list[ConfigValue]:
        """Every setting with all its errors and recommended values."""
        return list(self.validate_all(props).values())

    def validate_all(self, props: Mapping[str, Any]) -> dict[str, ConfigValue]:
        values = {key.name: _checked_value(key, props) for key in self.keys.values()}
        parsed = {name: value.value for name, value in values.items()}
        for key in self.keys.values():
            _recommend(key, values[key.name], parsed)
        for name in self._undefined_dependents():
            message = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[message], visible=False)
        for name, text in self.problems(parsed):
            values[name].errors.append(text)
        return values

    def _undefined_dependents(self) -> list[str]:
        named = (name for key in self.keys.values() for name in key.dependents)
        return list(dict.fromkeys(name for name in named if name not in self.keys))

    def infos(self, name: str, values: Iterable[ConfigValue]) -> dict[str, Any]:
        """REST's ConfigInfos: definitions, values, and the error count."""
        by_name = {value.name: value for value in values}
        unknown = [value for value in by_name.values() if value.name not in self.keys]
        configs = [{"definition": None, "value": value.info(None)} for value in unknown]
        for key in self.keys.values():
            value = by_name.get(key.name)
            info = value.info(key.type) if value is not None else None
            configs.append({"definition": key.info(), "value": info})
        errors = sum(len(value.errors) for value in by_name.values())
        return {"name": name, "error_count": errors, "groups": self.groups, "configs": configs}

    def key_infos(self) -> list[dict[str, Any]]:
        """REST's /connector-plugins/<plugin>/config."""
        return [key.info() for key in self.keys.values()]


def _without(prefix: str, validator: Validator | None) -> Validator | None:
    if validator is None:
        return None
    return lambda name, value: validator(name.removeprefix(prefix), value)


def _parsed(key: ConfigKey, props: Mapping[str, Any]) -> Any:
    if key.name in props:
        value = parse_type(key.name, props[key.name], key.type)
    elif key.default is NO_DEFAULT:
        raise ConfigException(_missing(key))
    else:
        value = key.default
    if key.validator is not None:
        key.validator(key.name, value)
    return value


def _missing(key: ConfigKey) -> str:
    return f'Missing required configuration "{key.name}" which has no default value.'


def _checked_value(key: ConfigKey, props: Mapping[str, Any]) -> ConfigValue:
    checked = ConfigValue(key.name)
    if key.name in props:
        try:
            checked.value = parse_type(key.name, props[key.name], key.type)
        except ConfigException as error:
            checked.errors.append(str(error))
    elif key.default is NO_DEFAULT:
        checked.errors.append(_missing(key))
    else:
        checked.value = key.default
    if key.validator is not None:
        try:
            key.validator(key.name, checked.value)
        except ConfigException as error:
            checked.errors.append(str(error))
    return checked


def _recommend(key: ConfigKey, value: ConfigValue, parsed: Mapping[str, Any]) -> None:
    if key.recommender is None:
        return
    try:
        value.recommended_values = list(key.recommender.valid_values(key.name, parsed))
        value.visible = key.recommender.visible(key.name, parsed)
    except ConfigException as error:
        value.errors.append(str(error))


# Text <-> values.

INTEGERS: Final = {
    ConfigType.SHORT: (16, "16-bit integer (short)"),
    ConfigType.INT: (32, "32-bit integer"),
    ConfigType.LONG: (64, "64-bit integer (long)"),
}
INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def parse_type(name: str, value: Any, type: ConfigType) -> Any:
    """The value as this type, from text or a Python value; raises ConfigException."""
    if value is None:
        return None
    if type in INTEGERS:
        return _integer(name, value, type)
    return _PARSERS[type](name, value)


def _integer(name: str, value: Any, type: ConfigType) -> int:
    bits, called = INTEGERS[type]
    if isinstance(value, str):
        text = value.strip()
        if not INTEGER.fullmatch(text) or not _fits(int(text), bits):
            raise ConfigException.of(name, value, f"Not a number of type {type.name}")
        return int(text)
    if isinstance(value, int) and not isinstance(value, bool) and _fits(value, bits):
        return value
    message = f"Expected value to be a {called}, but it was a {value.__class__.__name__}"
    raise ConfigException.of(name, value, message)


def _fits(number: int, bits: int) -> bool:
    return -(1 << bits - 1) <= number < 1 << bits - 1


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ConfigException.of(name, value, "Expected value to be either true or false")


def _string(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    message = f"Expected value to be a string, but it was a {type(value).__name__}"
    raise ConfigException.of(name, value, message)


def _password(name: str, value: Any) -> Password:
    return value if isinstance(value, Password) else Password(_string(name, value))


def _double(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            raise ConfigException.of(name, value, "Not a number of type DOUBLE") from None
    message = f"Expected value to be a double, but it was a {type(value).__name__}"
    raise ConfigException.of(name, value, message)


def _list(name: str, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        text = value.strip()
        return COMMA.split(text) if text else []
    raise ConfigException.of(name, value, "Expected a comma separated list.")


def _class(name: str, value: Any) -> Any:
    """A class or its name, which plugins.py resolves."""
    if isinstance(value, type):
        return value
    if isinstance(value, str):
        return value.strip()
    raise ConfigException.of(name, value, "Expected a Class instance or class name.")


_PARSERS: Final[dict[ConfigType, Callable[[str, Any], Any]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.PASSWORD: _password,
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _class,
}


def as_text(value: Any, type: ConfigType | None) -> str | None:
    """A parsed value as text again, as REST shows it; passwords stay hidden."""
    if value is None:
        return None
    if type is ConfigType.LIST and isinstance(value, list):
        return ",".join(java_text(item) for item in value)
    if isinstance(value, Password):
        return repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return getattr(value, "java_name", None) or f"{value.__module__}.{value.__qualname__}"
    return java_text(value)
