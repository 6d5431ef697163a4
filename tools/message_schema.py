"""Kafka's messages by kio: all versions of a message merged into one description."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import types
import typing
from pathlib import Path

from message_supplement import supplemented

NOT_FLEXIBLE = 0x7FFF
REQUIRED = object()  # the default of a field that has none

# kafka_type -> (struct's letter, letter in the name of the struct's constant)
FIXED = {
    "bool": ("?", "T"),
    "int8": ("b", "B"),
    "int16": ("h", "H"),
    "uint16": ("H", "U"),
    "error_code": ("h", "H"),
    "int32": ("i", "I"),
    "timedelta_i32": ("i", "I"),
    "int64": ("q", "Q"),
    "timedelta_i64": ("q", "Q"),
    "datetime_i64": ("q", "Q"),
    "float64": ("d", "D"),
    "uuid": ("16s", "X"),
}
WIDTHS = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}
# kafka_type -> (Python's type, its zero); all others are integers
PYTHON_TYPES = {
    "bool": ("bool", "False"),
    "float64": ("float", "0.0"),
    "uuid": ("bytes", "ZERO_UUID"),
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "records": ("Records", 'b""'),
}
# names of locals in generated code, which a field's local must not take
RESERVED = {"data", "position", "version", "count", "size", "tag", "end", "present"}


@dataclasses.dataclass(frozen=True)
class Wire:
    """How one version writes a field."""

    type: str  # kafka_type, or "struct"
    array: bool
    nullable: bool
    tag: int | None

    @property
    def fixed(self) -> bool:
        return self.type in FIXED and not self.array and self.tag is None


@dataclasses.dataclass
class Field:
    """One field of a message, in all versions that have it."""

    name: str
    struct: str | None = None  # the nested message's class
    default: object = REQUIRED
    wires: dict[int, Wire] = dataclasses.field(default_factory=dict)

    @property
    def latest(self) -> Wire:
        return self.wires[max(self.wires)]

    @property
    def nullable(self) -> bool:
        """True if None is a value. A tagged struct is None when the tag is absent."""
        tagged_struct = self.latest.type == "struct" and self.latest.tag is not None
        return any(w.nullable for w in self.wires.values()) or (
            tagged_struct and not self.latest.array
        )

    @property
    def element_type(self) -> str:
        return self.struct or PYTHON_TYPES.get(self.latest.type, ("int", "0"))[0]

    @property
    def python_type(self) -> str:
        name = f"list[{self.element_type}]" if self.latest.array else self.element_type
        return f"{name} | None" if self.nullable else name

    @property
    def default_code(self) -> str:
        """The default as written in a signature; None if each instance needs its own."""
        kind = self.latest.type
        if self.latest.array or kind == "struct" or self.nullable:
            return "None"
        default = self.default
        if default is REQUIRED or (default is None and kind == "uuid"):
            return PYTHON_TYPES.get(kind, ("int", "0"))[1]
        if kind == "datetime_i64":
            assert default is None
            return "-1"
        if isinstance(default, datetime.timedelta):
            return str(default // datetime.timedelta(milliseconds=1))
        if kind == "error_code":
            return str(int(typing.cast(int, default)))
        return '""' if default == "" else repr(default)

    @property
    def fresh(self) -> str | None:
        """The expression for a default that must not be shared."""
        if self.nullable:
            return None
        if self.latest.array:
            return "[]"
        return f"{self.struct}()" if self.struct else None

    @property
    def local(self) -> str:
        return f"{self.name}_" if self.name in RESERVED else self.name


@dataclasses.dataclass
class Message:
    """A message, or a struct within one, in all its versions."""

    name: str
    title: str
    top: bool  # a message, and not a struct within one
    fields: list[Field]
    versions: list[int]
    flexible_from: int

    def halves(self) -> tuple[list[int], list[int]]:
        legacy = [v for v in self.versions if v < self.flexible_from]
        return legacy, [v for v in self.versions if v >= self.flexible_from]


def walk(folder: Path) -> dict[str, dict[int, type]]:
    """The top classes that one folder of kio describes: "request" -> version -> class."""
    found: dict[str, dict[int, type]] = {}
    for path in sorted(folder.glob("v*/*.py")):
        if path.stem == "__init__":
            continue
        version = int(path.parent.name[1:])
        module = importlib.import_module(f"kio.schema.{folder.name}.v{version}.{path.stem}")
        classes = [
            value
            for value in vars(module).values()
            if dataclasses.is_dataclass(value)
            and getattr(value, "__module__", "") == module.__name__
        ]
        found.setdefault(path.stem, {})[version] = typing.cast(type, classes[-1])
    return {kind: supplemented(folder.name, classes) for kind, classes in found.items()}


def nested_classes(tops: dict[int, type]) -> dict[str, dict[int, type]]:
    """Every class of a message, innermost first: name -> version -> class."""
    found: dict[str, dict[int, type]] = {}

    def visit(cls: type, version: int) -> None:
        for field in dataclasses.fields(cls):
            inner = describe(field)[1]
            if inner is not None:
                visit(inner, version)
        found.setdefault(cls.__name__, {})[version] = cls

    for version in sorted(tops, reverse=True):
        visit(tops[version], version)
    return found


def describe(field: dataclasses.Field[object]) -> tuple[Wire, type | None]:
    annotation, nullable = strip_none(field.type)
    array = typing.get_origin(annotation) is tuple
    if array:
        annotation, _ = strip_none(typing.get_args(annotation)[0])
    inner = annotation if dataclasses.is_dataclass(annotation) else None
    kind = field.metadata.get("kafka_type", "struct")
    if kind in ("uuid", "datetime_i64") and not array:
        nullable = False  # kio's None is the zero id, or -1
    wire = Wire(kind, array, nullable, field.metadata.get("tag"))
    return wire, typing.cast("type | None", inner)


def strip_none(annotation: object) -> tuple[object, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        rest = [a for a in typing.get_args(annotation) if a is not types.NoneType]
        assert len(rest) == 1
        return rest[0], True
    return annotation, False


def merge(name: str, by_version: dict[int, type], title: str, top: bool) -> Message:
    """Merges the versions of a message. kio keeps the same order of fields in all of them."""
    fields: dict[str, Field] = {}
    order: list[str] = []
    for version, cls in sorted(by_version.items(), reverse=True):
        previous = -1
        for kio_field in dataclasses.fields(cls):
            wire, inner = describe(kio_field)
            field = fields.setdefault(kio_field.name, Field(kio_field.name))
            if not field.wires:
                has_default = kio_field.default is not dataclasses.MISSING
                field.default = kio_field.default if has_default else REQUIRED
                field.struct = inner.__name__ if inner else None
            field.wires[version] = wire
            if kio_field.name not in order:
                order.insert(previous + 1, kio_field.name)
            assert order.index(kio_field.name) > previous, (name, order)
            previous = order.index(kio_field.name)
    flexible = [v for v, cls in by_version.items() if getattr(cls, "__flexible__", False)]
    return Message(
        name,
        title,
        top,
        [fields[n] for n in order],
        sorted(by_version),
        min(flexible, default=NOT_FLEXIBLE),
    )


def spans(versions: list[int]) -> str:
    first, last = versions[0], versions[-1]
    return f"v{first}" if first == last else f"v{first} to v{last}"


def api_name(top: str) -> str:
    return top.removesuffix("Request").removesuffix("Response")


def messages_of(tops: dict[str, dict[int, type]]) -> list[Message]:
    """A folder's messages, in the order in which they can be defined."""
    messages: list[Message] = []
    by_name: dict[str, Message] = {}
    for kind, by_version in tops.items():
        top_name = by_version[max(by_version)].__name__
        key = getattr(by_version[max(by_version)], "__api_key__", None)
        renamed: dict[str, str] = {}
        for name, versions in nested_classes(by_version).items():
            message = merge(name, versions, "", name == top_name)
            if message.top:
                of = f"{api_name(name)} (key {key}), {kind}" if key is not None else name
                message.title = f"{of}, {spans(message.versions)}."
            for field in message.fields:
                field.struct = renamed.get(field.struct or "", field.struct)
            twin = by_name.get(name)
            if twin is not None and twin == message:
                continue
            if twin is not None:
                assert kind == "response", name
                message.name = renamed[name] = f"Response{name}"
            by_name[message.name] = message
            messages.append(message)
    return messages
