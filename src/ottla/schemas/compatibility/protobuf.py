"""Protobuf: can a reader's messages read what a writer's messages wrote?

Fields are identified by number, so names do not matter; a number must keep its wire type. The rules
are Confluent's: changes that are readable but surprising (a removed message, a oneof that takes in
several fields) count as incompatible.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.schemas.compatibility.pairs import PairComparison
from ottla.schemas.protobuf.map_entries import is_map_entry, with_maps
from ottla.schemas.protobuf.proto_file import ProtoField, ProtoMessage
from ottla.schemas.protobuf.schema import SCALARS, ProtobufSchema, ProtoType

_GROUPS = (
    ("int32", "int64", "uint32", "uint64", "bool", "enum"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)
_GROUP = {name: number for number, names in enumerate(_GROUPS) for name in names}
# Types that are packed when repeated: another wire format.
_NUMERIC = frozenset(_GROUP) - {"string", "bytes"}

_TEXTS = {
    "PACKAGE_CHANGED": ("has another package", "keep the package, or use a new subject"),
    "MESSAGE_REMOVED": ("no longer has the message", "keep the message, even if it is empty"),
    "FIELD_KIND_CHANGED": (
        "has another kind of field (scalar, message or map)",
        "keep the field and add one with a new number",
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "has a type with another form on the wire",
        "stay within int32, int64, uint32, uint64, bool and enums, within sint32 and sint64, "
        "within string and bytes, within fixed32 and sfixed32, or within fixed64 and sfixed64",
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "has another message type",
        "keep the type, or add a field with a new number",
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "has a number that became repeated or single",
        "keep the label, or add a field with a new number",
    ),
    "REQUIRED_FIELD_ADDED": ("has a new required field", "make it optional"),
    "REQUIRED_FIELD_REMOVED": ("lost a required field", "keep it"),
    "ONEOF_FIELD_REMOVED": (
        "lost a field of a oneof",
        "keep the field in the oneof, or remove the whole oneof",
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "puts fields into one oneof that could be set together",
        "leave the fields outside, or start a oneof with at most one of them",
    ),
}


@dataclass(frozen=True, slots=True)
class ProtobufDifference:
    type: str
    path: str
    info: str = ""

    def message(self, reader: str, writer: str) -> str:
        what, remedy = _TEXTS[self.type]
        return (
            f"{{errorType:'{self.type}', description:'The {reader} schema {what} at path "
            f"'{self.path}', compared with the {writer} schema', additionalInfo:'{self.info}', "
            f"remedy:'{remedy}'}}"
        )


def unreadable(
    reader: ProtobufSchema, writer: ProtobufSchema, reader_name: str, writer_name: str
) -> list[str]:
    """Why the reader can't read what the writer wrote; empty if it can."""
    found = _differences(reader, writer)
    return [difference.message(reader_name, writer_name) for difference in found]


def _differences(new: ProtobufSchema, old: ProtobufSchema) -> list[ProtobufDifference]:
    before, now = old.file.package, new.file.package
    if before != now:
        return [ProtobufDifference("PACKAGE_CHANGED", "#/", f"{before} before, {now} now")]
    comparison = _ProtobufComparison(new, old)
    found: list[ProtobufDifference] = []
    for name, earlier in old.own_types().items():
        if earlier.is_enum or is_map_entry(earlier.element):
            continue
        current = new.own_types().get(name)
        where = f"#/{earlier.local_name.replace('.', '/')}"
        if current is None or current.is_enum:
            found.append(ProtobufDifference("MESSAGE_REMOVED", where, name))
        else:
            found += comparison.check(current, earlier, where)
    return list(dict.fromkeys(found))


class _ProtobufComparison(PairComparison[ProtoType, ProtobufDifference]):
    def __init__(self, new: ProtobufSchema, old: ProtobufSchema) -> None:
        super().__init__()
        self.new = new
        self.old = old

    def differences(
        self, reader: ProtoType, writer: ProtoType, path: str
    ) -> list[ProtobufDifference]:
        now, before = reader.element, writer.element
        if not isinstance(now, ProtoMessage) or not isinstance(before, ProtoMessage):
            return []  # in well-known files, which do not change
        now, before = with_maps(now), with_maps(before)
        fields = {field.number: field for field in now.all_fields()}
        earlier = {field.number: field for field in before.all_fields()}
        found: list[ProtobufDifference] = []
        for number, field in earlier.items():
            self.take_step()
            where = f"{path}/{number}"
            if number in fields:
                found += self._fields(fields[number], field, reader, writer, where)
            elif field.label == "required":
                found.append(ProtobufDifference("REQUIRED_FIELD_REMOVED", where, field.name))
        for number, field in fields.items():
            if number not in earlier and field.label == "required":
                where = f"{path}/{number}"
                found.append(ProtobufDifference("REQUIRED_FIELD_ADDED", where, field.name))
        return found + _oneofs(now, before, path)

    def _fields(
        self, now: ProtoField, before: ProtoField, reader: ProtoType, writer: ProtoType, path: str
    ) -> list[ProtobufDifference]:
        current = self.new.field_type(now, reader.name)
        earlier = self.old.field_type(before, writer.name)
        info = f"{_shown(before)} before, {_shown(now)} now"
        if bool(now.map_key) != bool(before.map_key):
            return [ProtobufDifference("FIELD_KIND_CHANGED", path, info)]
        if now.map_key and _GROUP[now.map_key] != _GROUP[before.map_key]:
            return [ProtobufDifference("FIELD_SCALAR_KIND_CHANGED", path, info)]
        now_is_message = current is not None and not current.is_enum
        before_is_message = earlier is not None and not earlier.is_enum
        if now_is_message != before_is_message:
            return [ProtobufDifference("FIELD_KIND_CHANGED", path, info)]
        if now_is_message:
            assert current is not None
            assert earlier is not None
            return self._messages(current, earlier, path, info)
        return _scalars(now, before, path, info)

    def _messages(
        self, now: ProtoType, before: ProtoType, path: str, info: str
    ) -> list[ProtobufDifference]:
        # A message may move to another file and package, but keeps its name.
        if now.local_name != before.local_name or self.compare(now, before, path):
            return [ProtobufDifference("FIELD_NAMED_TYPE_CHANGED", path, info)]
        return []


def _scalars(now: ProtoField, before: ProtoField, path: str, info: str) -> list[ProtobufDifference]:
    current, earlier = _scalar(now), _scalar(before)
    if _GROUP[current] != _GROUP[earlier]:
        return [ProtobufDifference("FIELD_SCALAR_KIND_CHANGED", path, info)]
    repeated = (now.label == "repeated", before.label == "repeated")
    if repeated[0] != repeated[1] and (current in _NUMERIC or earlier in _NUMERIC):
        return [ProtobufDifference("FIELD_NUMERIC_LABEL_CHANGED", path, info)]
    return []


def _oneofs(now: ProtoMessage, before: ProtoMessage, path: str) -> list[ProtobufDifference]:
    found: list[ProtobufDifference] = []
    home = {field.number: oneof.name for oneof in before.oneofs for field in oneof.fields}
    existing = {field.number for field in before.all_fields()}
    for oneof in now.oneofs:
        # Fields of one oneof are never set together; others may have been.
        origins = {
            home.get(field.number, field.number)
            for field in oneof.fields
            if field.number in existing
        }
        if len(origins) > 1:
            where = f"{path}/{oneof.name}"
            found.append(ProtobufDifference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", where, oneof.name))
    return found + _removed_from_oneofs(now, before, path)


def _removed_from_oneofs(
    now: ProtoMessage, before: ProtoMessage, path: str
) -> list[ProtobufDifference]:
    inside = {field.number for oneof in now.oneofs for field in oneof.fields}
    found: list[ProtobufDifference] = []
    for oneof in before.oneofs:
        left = [field for field in oneof.fields if field.number not in inside]
        if left and len(left) < len(oneof.fields):
            found += [
                ProtobufDifference(
                    "ONEOF_FIELD_REMOVED", f"{path}/{oneof.name}/{field.number}", field.name
                )
                for field in left
            ]
    return found


def _scalar(field: ProtoField) -> str:
    return field.type if field.type in SCALARS else "enum"


def _shown(field: ProtoField) -> str:
    kind = f"map<{field.map_key}, {field.type}>" if field.map_key else field.type
    return f"{field.label} {kind} {field.name}".lstrip()
