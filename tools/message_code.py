"""The code of one message's class: constructor, `read`, `write`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from message_schema import FIXED, RESERVED, WIDTHS, Field, Message, Wire

LIMITED = {"ProduceRequest": "partition_data", "TopicProduceData": ""}  # and the list within
REFRESH = "buffer = writer.buffer"  # after a write that may have spliced a file in


@dataclasses.dataclass
class Block:
    """Lines for some versions; adjacent blocks for the same versions become one `if`."""

    condition: str
    lines: list[str]


def intervals(versions: list[int], all_versions: list[int]) -> Iterator[list[int]]:
    """Splits versions at gaps in which all_versions has others."""
    current: list[int] = []
    for version in all_versions:
        if version in versions:
            current.append(version)
        elif current:
            yield current
            current = []
    if current:
        yield current


def condition(some: list[int], of: list[int]) -> str:
    if some == of:
        return ""
    if some[-1] == of[-1]:
        return f"version >= {some[0]}"
    if some[0] == of[0]:
        return f"version <= {some[-1]}"
    return f"{some[0]} <= version <= {some[-1]}" if some[0] != some[-1] else f"version == {some[0]}"


def lay_out(blocks: list[Block]) -> list[str]:
    lines: list[str] = []
    open_condition = ""  # of the `if` that the next block may continue, or be the `else` of
    for block in blocks:
        if block.condition and block.condition != open_condition:
            otherwise = are_complements(block.condition, open_condition)
            lines.append("else:" if otherwise else f"if {block.condition}:")
            open_condition = "" if otherwise else block.condition
        elif not block.condition:
            open_condition = ""
        lines += indent(block.lines) if block.condition else block.lines
    return lines


def are_complements(one: str, other: str) -> bool:
    limits = {}
    for text in (one, other):
        match = re.fullmatch(r"version (<=|>=) (\d+)", text)
        if match is None:
            return False
        limits[match[1]] = int(match[2])
    return len(limits) == 2 and limits["<="] + 1 == limits[">="]


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class Module:
    """The imports and constants of one module."""

    def __init__(self) -> None:
        self.imports = {"Buffer", "Message", "Writer"}
        self.structs: dict[str, str] = {}
        self.splicing: set[str] = set()  # classes with records in them, at whatever depth

    def use(self, name: str) -> str:
        self.imports.add(name)
        return name

    def struct(self, fields: list[Field]) -> tuple[str, int]:
        """The name of the struct for these fields, and its size."""
        pairs = [FIXED[f.latest.type] for f in fields]
        name = "_" + "".join(letter for _, letter in pairs)
        self.structs[name] = ">" + "".join(code for code, _ in pairs)
        return name, sum(WIDTHS[code] for code, _ in pairs)


class Method:
    """Walks a message's fields in wire order; subclasses generate the code for each."""

    def __init__(self, message: Message, module: Module) -> None:
        self.message = message
        self.module = module
        self.use = module.use

    def run(self, fields: list[Field]) -> list[str]:
        """Code for fixed-width fields that follow each other."""
        raise NotImplementedError

    def one(self, field: Field, wire: Wire, compact: str) -> list[str]:
        """Code for one field of any other kind."""
        raise NotImplementedError

    def tags(self) -> list[str]:
        """Code for the tagged fields that end a flexible message."""
        raise NotImplementedError

    def body(self) -> list[str]:
        message = self.message
        legacy, flexible = message.halves()
        wires = [wire for field in message.fields for wire in field.wires.values()]
        alike = all(wire.fixed or wire.tag is not None for wire in wires)
        if not legacy:
            return self.half(flexible, "compact_") + self.tags()
        if not flexible:
            return self.half(legacy, "")
        if alike:
            tags = [f"if version >= {message.flexible_from}:", *indent(self.tags())]
            return self.half(message.versions, "compact_") + tags
        return [
            f"if version >= {message.flexible_from}:",
            *indent(self.half(flexible, "compact_") + self.tags()),
            "else:",
            *indent(self.half(legacy, "") or ["pass"]),
        ]

    def half(self, versions: list[int], compact: str) -> list[str]:
        blocks: list[Block] = []
        pending: list[Field] = []
        for field in self.message.fields:
            wires = [field.wires[v] for v in versions if v in field.wires]
            wires = [wire for wire in wires if wire.tag is None]
            if not wires:
                continue
            if all(wire.fixed for wire in wires):
                pending.append(field)
                continue
            blocks += self.fixed_run(pending, versions)
            pending = []
            blocks += self.variable(field, versions, compact)
        blocks += self.fixed_run(pending, versions)
        return lay_out(blocks)

    def fixed_run(self, fields: list[Field], versions: list[int]) -> list[Block]:
        """One struct, or a branch for each set of fields that some versions have."""
        layouts: dict[tuple[str, ...], list[int]] = {}
        for version in versions:
            names = tuple(f.name for f in fields if version in f.wires)
            layouts.setdefault(names, []).append(version)
        spans = [(names, s) for names, vs in layouts.items() for s in intervals(vs, versions)]
        filled = [(names, span) for names, span in spans if names]
        if len(filled) <= 1:
            return [Block(condition(span, versions), self.run(fields)) for _, span in filled]
        lines: list[str] = []
        spans.sort(key=lambda span: span[1], reverse=True)
        for number, (names, span) in enumerate(spans):
            last = number == len(spans) - 1
            if last and not names:
                break
            keyword = "if" if number == 0 else "elif"
            lines.append("else:" if last else f"{keyword} version >= {span[0]}:")
            present = [f for f in fields if f.name in names]
            lines += indent(self.run(present) if present else ["pass"])
        return [Block("", lines)]

    def variable(self, field: Field, versions: list[int], compact: str) -> list[Block]:
        by_wire: dict[Wire, list[int]] = {}
        for version in versions:
            if version in field.wires:
                by_wire.setdefault(field.wires[version], []).append(version)
        return [
            Block(condition(span, versions), self.one(field, wire, compact))
            for wire, wire_versions in by_wire.items()
            for span in intervals(wire_versions, versions)
        ]

    def item(self, field: Field) -> str:
        """The name of one element of an array: "topics" -> "topic"."""
        name = re.sub("s$", "", re.sub("ies$", "y", field.name))
        taken = RESERVED | {f.name for f in self.message.fields}
        return name if name not in taken else f"{field.name}_item"

    def tagged(self) -> list[tuple[int, Field, str]]:
        """Tag, field, and the versions that know it, as a condition; in the order of tags."""
        _, flexible = self.message.halves()
        found = []
        for field in self.message.fields:
            versions = [v for v in flexible if v in field.wires and field.wires[v].tag is not None]
            if versions and field.latest.tag is not None:
                found.append((field.latest.tag, field, condition(versions, flexible)))
        return sorted(found, key=lambda entry: entry[0])


class ReadMethod(Method):
    def code(self) -> list[str]:
        message = self.message
        arguments = ", ".join(field.local for field in message.fields)
        body = [*self.locals(), *self.body(), f"return {message.name}({arguments}), position"]
        if message.top:
            errors, malformed = self.use("READ_ERRORS"), self.use("MalformedError")
            body = [
                "try:",
                *indent(body),
                f"except {errors} as error:",
                f'    raise {malformed}(f"{message.name} v{{version}}: {{error}}") from error',
            ]
        return [
            "@staticmethod",
            f"def read(data: Buffer, position: int, version: int) -> tuple[{message.name}, int]:",
            *indent(body),
        ]

    def locals(self) -> list[str]:
        """Defaults of the fields that some version lacks, and types that cannot be inferred."""
        lines = []
        for field in self.message.fields:
            wires = [field.wires.get(version) for version in self.message.versions]
            if not all(wire is not None and wire.tag is None for wire in wires):
                default = field.fresh or field.default_code
                lines.append(f"{field.local}: {field.python_type} = {default}")
            elif field.latest.array or field.nullable:
                lines.append(f"{field.local}: {field.python_type}")
        return lines

    def run(self, fields: list[Field]) -> list[str]:
        name, size = self.module.struct(fields)
        targets = ", ".join(f.local for f in fields)
        if len(fields) == 1:
            targets = f"({targets},)"
        return [f"{targets} = {name}.unpack_from(data, position)", f"position += {size}"]

    def one(self, field: Field, wire: Wire, compact: str) -> list[str]:
        local = field.local
        nullable = "nullable_" if wire.nullable else ""
        if wire.array:
            count = self.use(f"read_{compact}{nullable}count")
            lines = self.array(field, wire, compact)
            if wire.nullable:
                lines = ["if count < 0:", f"    {local} = None", "else:", *indent(lines)]
            return [f"count, position = {count}(data, position)", *lines]
        if wire.type == "struct":
            lines = [f"{local}, position = {field.struct}.read(data, position, version)"]
            if wire.nullable:
                presence = self.use("read_presence")
                lines = ["if present:", *indent(lines), "else:", f"    {local} = None"]
                lines.insert(0, f"present, position = {presence}(data, position)")
            return lines
        if wire.type in FIXED:
            return self.run([field])
        reader = self.use(f"read_{compact}{nullable}{wire.type}")
        return [f"{local}, position = {reader}(data, position)"]

    def array(self, field: Field, wire: Wire, compact: str) -> list[str]:
        local = field.local
        if wire.type == "struct":
            item = self.item(field)
            lines = [
                f"{local} = []",
                "for _ in range(count):",
                f"    {item}, position = {field.struct}.read(data, position, version)",
                f"    {local}.append({item})",
            ]
            return self.limited(lines, item, local)
        if wire.type == "uuid":
            return [f"{local}, position = {self.use('read_uuids')}(data, position, count)"]
        if wire.type == "string":
            reader = self.use(f"read_{compact}strings")
            return [f"{local}, position = {reader}(data, position, count)"]
        reader = self.use("read_numbers")
        return [f'{local}, position = {reader}(data, position, count, "{FIXED[wire.type][0]}")']

    def limited(self, lines: list[str], item: str, local: str) -> list[str]:
        """Produce is parsed on the event loop, so its topics and partitions are limited."""
        if self.message.name not in LIMITED:
            return lines
        limit, bad_size = self.use("PRODUCE_COUNT_MAX"), self.use("bad_size")
        lines = [f"if count > {limit}:", f"    raise {bad_size}(count)", *lines]
        inner = LIMITED[self.message.name]
        if inner:
            lines.insert(2, "total = count")
            lines += [
                f"    total += len({item}.{inner})",
                f"    if total > {limit}:",
                f"        raise {bad_size}(total)",
            ]
        return lines

    def tags(self) -> list[str]:
        tagged = self.tagged()
        if not tagged:
            skip = self.use("skip_tags")
            return [f"position = {skip}(data, position) if data[position] else position + 1"]
        lines = [
            f"tag_count, position = {self.use('read_tag_count')}(data, position)",
            "for _ in range(tag_count):",
            f"    tag, position, end = {self.use('read_tag')}(data, position)",
        ]
        for number, (tag, field, known) in enumerate(tagged):
            keyword = "elif" if number else "if"
            lines.append(f"    {keyword} tag == {tag}{' and ' + known if known else ''}:")
            lines += indent(indent(self.one(field, field.latest, "compact_")))
        malformed = self.use("MalformedError")
        return [
            *lines,
            "    else:",
            "        position = end",
            "    if position != end:",
            f'        raise {malformed}(f"tagged field {{tag}} is not as long as it says")',
        ]


class WriteMethod(Method):
    def code(self) -> list[str]:
        body = self.body()
        if body and body[-1].strip() == REFRESH:
            body.pop()
        if any("buffer" in line for line in body):
            body.insert(0, REFRESH)
        lines = [
            "def write(self, writer: Writer, version: int) -> None:",
            *indent(body or ["pass"]),
        ]
        return [*lines, "", *self.tags_method()] if self.tagged() else lines

    def run(self, fields: list[Field]) -> list[str]:
        name, _ = self.module.struct(fields)
        return [f"buffer += {name}.pack({', '.join('self.' + f.name for f in fields)})"]

    def one(self, field: Field, wire: Wire, compact: str) -> list[str]:
        value = f"self.{field.name}"
        nullable = "nullable_" if wire.nullable else ""
        if field.nullable and not wire.nullable and wire.tag is None:
            return [f"assert {value} is not None", *self.not_null(field, wire, compact, "")]
        if wire.array and wire.nullable:
            count = self.use(f"write_{compact}count")
            lines = self.not_null(field, wire, compact, "")
            return [f"if {value} is None:", f"    {count}(buffer, -1)", "else:", *indent(lines)]
        if wire.type == "struct" and wire.nullable:
            lines = [f"if {value} is None:", "    buffer.append(0xFF)", "else:"]
            return [*lines, "    buffer.append(1)", f"    {value}.write(writer, version)"]
        return self.not_null(field, wire, compact, nullable)

    def not_null(self, field: Field, wire: Wire, compact: str, nullable: str) -> list[str]:
        value = f"self.{field.name}"
        if wire.array:
            return self.array(field, wire, compact)
        if wire.type == "struct":
            return [f"{value}.write(writer, version)"]
        if wire.type in FIXED:
            return self.run([field])
        writer = self.use(f"write_{compact}{nullable}{wire.type}")
        if wire.type == "records":
            self.module.splicing.add(self.message.name)
            return [f"{writer}(writer, {value})", REFRESH]
        return [f"{writer}(buffer, {value})"]

    def array(self, field: Field, wire: Wire, compact: str) -> list[str]:
        value = f"self.{field.name}"
        lines = [f"{self.use(f'write_{compact}count')}(buffer, len({value}))"]
        if wire.type == "struct":
            item = self.item(field)
            lines += [f"for {item} in {value}:", f"    {item}.write(writer, version)"]
            if field.struct in self.module.splicing:
                self.module.splicing.add(self.message.name)
                lines.append(REFRESH)
        elif wire.type == "uuid":
            lines.append(f"{self.use('write_uuids')}(buffer, {value})")
        elif wire.type == "string":
            lines.append(f"{self.use(f'write_{compact}strings')}(buffer, {value})")
        else:
            code = FIXED[wire.type][0]
            lines.append(f'{self.use("write_numbers")}(buffer, {value}, "{code}")')
        return lines

    def tags(self) -> list[str]:
        tests = [self.is_set(field) for _, field, _ in self.tagged()]
        if not tests:
            return ["buffer.append(0)"]
        return [
            f"if {' or '.join(tests)}:",
            "    self._write_tags(buffer, version)",
            "else:",
            "    buffer.append(0)",
        ]

    def tags_method(self) -> list[str]:
        lines = ["tags: list[tuple[int, Writer]] = []"]
        for tag, field, known in self.tagged():
            lines_of_value = self.not_null(field, field.latest, "compact_", "")
            lines += [
                f"if {self.is_set(field)}{' and ' + known if known else ''}:",
                "    writer = Writer()",
                *indent([REFRESH] if any("buffer" in line for line in lines_of_value) else []),
                *indent(lines_of_value),
                f"    tags.append(({tag}, writer))",
            ]
        lines.append(f"{self.use('write_tags')}(tail, tags)")
        head = "def _write_tags(self, tail: bytearray, version: int) -> None:"
        return [head, *indent(lines)]

    def is_set(self, field: Field) -> str:
        if field.nullable:
            return f"self.{field.name} is not None"
        if field.latest.array:
            return f"self.{field.name}"
        return f"self.{field.name} != {field.default_code}"


def class_code(message: Message, module: Module) -> list[str]:
    """One class: slots, constructor, read, write."""
    names = ", ".join(f'"{f.name}"' for f in message.fields)
    names += "," if len(message.fields) == 1 else ""
    if any(f.latest.type == "uuid" and not f.latest.array for f in message.fields):
        module.use("ZERO_UUID")
    if any(f.latest.type == "records" for f in message.fields):
        module.use("Records")
    parameters = [
        f"{f.name}: {f.python_type}{' | None' if f.fresh else ''} = {f.default_code}"
        for f in message.fields
    ]
    assignments = [
        f"self.{f.name}: {f.python_type} = {f.fresh} if {f.name} is None else {f.name}"
        if f.fresh
        else f"self.{f.name} = {f.name}"
        for f in message.fields
    ]
    title = [f'"""{message.title}"""', ""] if message.title else []
    body = [
        *title,
        f"__slots__ = ({names})",
        f"__match_args__: ClassVar[tuple[str, ...]] = ({names})",
        "",
        f"def __init__(self, {', '.join(parameters)}) -> None:",
        *indent(assignments or ["pass"]),
        "",
        *ReadMethod(message, module).code(),
        "",
        *WriteMethod(message, module).code(),
    ]
    return ["", "", f"class {message.name}(Message):", *indent(body)]
