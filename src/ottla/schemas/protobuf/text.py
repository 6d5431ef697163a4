"""A .proto file as text, in the form that Confluent's registry stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.schemas.protobuf.parser import NUMBER_MAX
from ottla.schemas.protobuf.proto_file import (
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoMethod,
    ProtoOneof,
    ProtoOption,
    ProtoService,
)

_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
)


def proto_text(file: ProtoFile) -> str:
    head = ""
    if file.syntax:
        head += f'syntax = "{file.syntax}";\n'
    if file.edition:
        head += f'edition = "{file.edition}";\n'
    if file.package:
        head += f"package {file.package};\n"
    imports = "".join(
        f'import {kind + " " if kind else ""}"{name.translate(_ESCAPES)}";\n'
        for kind, name in sorted(file.imports, key=lambda item: item[0] == "public")
    )
    sections = [
        imports,
        "".join(f"option {_option(option)};\n" for option in file.options),
        "".join(_type(item) for item in file.types),
        "".join(_extend(item) for item in file.extends),
        "".join(_service(item) for item in file.services),
    ]
    return head + "".join(f"\n{section}" for section in sections if section)


def _type(item: ProtoMessage | ProtoEnum) -> str:
    return _message(item) if isinstance(item, ProtoMessage) else _enum(item)


def _message(message: ProtoMessage) -> str:
    sections = [
        _ranges("reserved", message.reserved),
        "".join(f"option {_option(option)};\n" for option in message.options),
        "".join(_field(field) for field in message.fields if field.group is None),
        "".join(_oneof(oneof) for oneof in message.oneofs),
        "".join(_group(field) for field in message.fields if field.group is not None),
        _ranges("extensions", message.extensions),
        "".join(_type(item) for item in message.types),
        "".join(_extend(item) for item in message.extends),
    ]
    return _doc(message.doc) + _braced(f"message {message.name}", sections)


def _group(field: ProtoField) -> str:
    assert field.group is not None
    body = _message(field.group)
    label = f"{field.label} " if field.label else ""
    name = field.group.name
    options = _options(field.options)
    return _doc(field.doc) + body.replace(
        f"message {name} {{", f"{label}group {name} = {field.number}{options} {{", 1
    )


def _field(field: ProtoField) -> str:
    label = f"{field.label} " if field.label else ""
    kind = f"map<{field.map_key}, {field.type}>" if field.map_key else field.type
    options = _options(field.options)
    return f"{_doc(field.doc)}{label}{kind} {field.name} = {field.number}{options};\n"


def _oneof(oneof: ProtoOneof) -> str:
    options = "".join(f"option {_option(option)};\n" for option in oneof.options)
    fields = "".join(_group(field) if field.group else _field(field) for field in oneof.fields)
    return _doc(oneof.doc) + _braced(f"oneof {oneof.name}", [options, fields])


def _extend(extend: ProtoExtend) -> str:
    fields = "".join(_group(field) if field.group else _field(field) for field in extend.fields)
    return _doc(extend.doc) + _braced(f"extend {extend.name}", [fields])


def _enum(enum: ProtoEnum) -> str:
    lines = _ranges("reserved", enum.reserved)
    lines += "".join(f"option {_option(option)};\n" for option in enum.options)
    for constant in enum.constants:
        options = _options(constant.options)
        lines += f"{_doc(constant.doc)}{constant.name} = {constant.number}{options};\n"
    return _doc(enum.doc) + _braced(f"enum {enum.name}", [lines])


def _service(service: ProtoService) -> str:
    options = "".join(f"option {_option(option)};\n" for option in service.options)
    methods = "".join(_method(method) for method in service.methods)
    return _doc(service.doc) + _braced(f"service {service.name}", [options, methods])


def _method(method: ProtoMethod) -> str:
    request = f"{'stream ' * method.request_stream}{method.request}"
    response = f"{'stream ' * method.response_stream}{method.response}"
    text = f"{_doc(method.doc)}rpc {method.name} ({request}) returns ({response})"
    if not method.options:
        return f"{text};\n"
    lines = "".join(f"option {_option(option)};\n" for option in method.options)
    return f"{text} {{\n{_indented(lines)}}};\n"


def _braced(head: str, sections: list[str]) -> str:
    body = "\n".join(_indented(section) for section in sections if section)
    return f"{head} {{\n{body}}}\n"


def _indented(text: str) -> str:
    # Blank lines are indented, too, as Confluent's are.
    return "".join(f"  {line}\n" for line in text.split("\n")[:-1])


def _ranges(word: str, statements: Iterable[list[tuple[int, int] | str]]) -> str:
    return "".join(f"{word} {', '.join(map(_range, parts))};\n" for parts in statements)


def _range(part: tuple[int, int] | str) -> str:
    if isinstance(part, str):
        return f'"{part.translate(_ESCAPES)}"'
    low, high = part
    return str(low) if low == high else f"{low} to {'max' if high == NUMBER_MAX else high}"


def _options(options: list[ProtoOption]) -> str:
    if not options:
        return ""
    if len(options) == 1:
        return f" [{_option(options[0])}]"
    lines = ",\n".join(_option(option) for option in options) + "\n"
    return f" [\n{_indented(lines)}]"


def _option(option: ProtoOption) -> str:
    if option.kind == "list":
        return f"{option.name} = [{', '.join(_value(*item) for item in option.value)}]"
    return f"{option.name} = {_value(option.kind, option.value)}"


def _value(kind: str, value: Any) -> str:
    if kind == "text":
        return f'"{value.translate(_ESCAPES)}"'
    if kind == "map":
        lines = ",\n".join(f"{key}: {_value(*item)}" for key, item in value) + "\n"
        return f"{{\n{_indented(lines)}}}"
    if kind == "list":
        lines = ",\n".join(_value(*item) for item in value) + "\n"
        return f"[\n{_indented(lines)}]"
    return str(value)


def _doc(text: str) -> str:
    return "".join(f"// {line}".rstrip() + "\n" for line in text.splitlines())
