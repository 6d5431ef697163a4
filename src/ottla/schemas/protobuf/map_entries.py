"""Maps in long form: a nested message with `option map_entry`, and a repeated field of it.

Descriptors have maps in this form, and so have schemas that clients register as descriptors. The
text keeps these messages, because message indexes count them; the normal form has `map<K, V>`.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.schemas.protobuf.proto_file import ProtoEnum, ProtoField, ProtoMessage


def is_map_entry(item: ProtoMessage | ProtoEnum | None) -> bool:
    return isinstance(item, ProtoMessage) and any(
        option.name == "map_entry" and option.value == "true" for option in item.options
    )


def with_maps(message: ProtoMessage) -> ProtoMessage:
    """The message with `map<K, V>` in place of its entry messages."""
    entries = {item.name: item for item in message.types if is_map_entry(item)}
    if not entries:
        return message

    def as_map(field: ProtoField) -> ProtoField:
        entry = entries.get(field.type.rpartition(".")[2])
        if not isinstance(entry, ProtoMessage) or field.label != "repeated":
            return field
        by_number = {part.number: part.type for part in entry.fields}
        if by_number.keys() != {1, 2}:
            return field
        return replace(field, label="", map_key=by_number[1], type=by_number[2])

    return replace(
        message,
        fields=[as_map(field) for field in message.fields],
        types=[item for item in message.types if not is_map_entry(item)],
    )
