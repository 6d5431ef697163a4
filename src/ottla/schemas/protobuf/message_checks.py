"""protoc's checks within one message or enum."""

from __future__ import annotations

from bisect import bisect_right

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.protobuf.proto_file import ProtoEnum, ProtoField, ProtoFile, ProtoMessage

_MAP_KEYS = frozenset(
    (
        *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "string"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    )
)


def check_message(name: str, message: ProtoMessage, file: ProtoFile) -> None:
    numbers: dict[int, str] = {}
    names: set[str] = {oneof.name for oneof in message.oneofs}
    if len(names) != len(message.oneofs):
        raise InvalidSchema(f"{name}: two oneofs have the same name")
    ranges, words = _reserved(message.reserved)
    for field in message.all_fields():
        if field.number in numbers:
            raise InvalidSchema(
                f"{name}: fields {numbers[field.number]} and {field.name} have the same number "
                f"{field.number}"
            )
        numbers[field.number] = field.name
        if field.name in names:
            raise InvalidSchema(f'"{field.name}" is already defined in {name}')
        names.add(field.name)
        if field.name in words or _contains(ranges, field.number):
            raise InvalidSchema(
                f"{name}: field {field.name} = {field.number} uses a reserved name or number"
            )
        _check_field(name, field, file)
    for oneof in message.oneofs:
        if not oneof.fields:
            raise InvalidSchema(f"{name}: oneof {oneof.name} has no fields")


def _check_field(message: str, field: ProtoField, file: ProtoFile) -> None:
    where = f"{message}.{field.name}"
    if field.map_key:
        if field.label:
            raise InvalidSchema(f"{where}: a map has no label")
        if field.map_key not in _MAP_KEYS:
            raise InvalidSchema(f"{where}: {field.map_key} can't be the key of a map")
    if file.syntax == "proto3":
        if field.label == "required":
            raise InvalidSchema(f"{where}: proto3 has no required fields")
        if field.group is not None:
            raise InvalidSchema(f"{where}: proto3 has no groups")
        if any(option.name == "default" for option in field.options):
            raise InvalidSchema(f"{where}: proto3 has no defaults of fields")


def check_enum(name: str, enum: ProtoEnum, file: ProtoFile) -> None:
    if not enum.constants:
        raise InvalidSchema(f"{name}: an enum has at least one constant")
    if file.syntax == "proto3" and enum.constants[0].number != 0:
        raise InvalidSchema(f"{name}: the first constant of an enum in proto3 is 0")
    alias = any(option.name == "allow_alias" and option.value == "true" for option in enum.options)
    ranges, words = _reserved(enum.reserved)
    names: set[str] = set()
    numbers: set[int] = set()
    for constant in enum.constants:
        if constant.name in names:
            raise InvalidSchema(f'"{constant.name}" is already defined in {name}')
        if constant.number in numbers and not alias:
            raise InvalidSchema(
                f"{name}: {constant.name} = {constant.number} has the number of another constant; "
                "if that is meant, set option allow_alias = true"
            )
        if constant.name in words or _contains(ranges, constant.number):
            raise InvalidSchema(f"{name}: {constant.name} uses a reserved name or number")
        names.add(constant.name)
        numbers.add(constant.number)


def _reserved(
    statements: list[list[tuple[int, int] | str]],
) -> tuple[list[tuple[int, int]], set[str]]:
    parts = [part for statement in statements for part in statement]
    ranges = sorted(part for part in parts if not isinstance(part, str))
    return _merged(ranges), {part for part in parts if isinstance(part, str)}


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint ranges, in order."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _contains(ranges: list[tuple[int, int]], number: int) -> bool:
    """By bisection: a stranger may send thousands of ranges and thousands of fields."""
    index = bisect_right(ranges, number, key=lambda part: part[0])
    return index > 0 and ranges[index - 1][1] >= number
