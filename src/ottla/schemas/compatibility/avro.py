"""Avro's schema resolution: can a reader's schema read what a writer's schema wrote?

Rules and paths are those of SchemaCompatibility in Avro 1.12, with one difference: Java keeps
conclusions from a pair of types in progress even if that pair fails later; `pairs.py` drops them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.schemas.avro.node import PRIMITIVES, AvroField, AvroNode
from ottla.schemas.compatibility.pairs import PairComparison

# The reader's type: the writer's types that can be promoted to it.
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}


@dataclass(frozen=True, slots=True)
class AvroDifference:
    type: str
    path: str
    info: str

    def message(self, reader: str, writer: str) -> str:
        description, remedy = _TEXTS[self.type]
        names = {"reader": reader, "writer": writer, "path": self.path, "info": self.info}
        return (
            f"{{errorType:'{self.type}', description:'{description.format(**names)}', "
            f"additionalInfo:'{self.info}', remedy:'{remedy.format(**names)}'}}"
        )


_TEXTS = {
    "NAME_MISMATCH": (
        "The name of the schema has changed (path '{path}')",
        "keep the name, or give the {reader} type an alias with the full name of the {writer} type",
    ),
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{path}' in the {reader} schema does not match "
        "with the {writer} schema",
        "keep the size, or add a field of another name",
    ),
    "MISSING_ENUM_SYMBOLS": (
        "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} "
        "schema",
        "keep the symbols, or give the enum in the {reader} schema a default",
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{info}' at path '{path}' in the {reader} schema has no default value and is "
        "missing in the {writer} schema",
        "give the field in the {reader} schema a default, or an alias that the {writer} schema has",
    ),
    "TYPE_MISMATCH": (
        "The type (path '{path}') of a field in the {reader} schema does not match with the "
        "{writer} schema",
        "keep the type, or use one that it can be promoted to: int, long, float, double in this "
        "order, string and bytes both ways, or a union with it",
    ),
    "MISSING_UNION_BRANCH": (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the "
        "{writer} schema",
        "keep this type in the union of the {reader} schema",
    ),
}


def unreadable(reader: AvroNode, writer: AvroNode, reader_name: str, writer_name: str) -> list[str]:
    """Why the reader can't read what the writer wrote; empty if it can."""
    found = _AvroComparison().check(reader, writer, "")
    return [difference.message(reader_name, writer_name) for difference in found]


class _AvroComparison(PairComparison[AvroNode, AvroDifference]):
    def differences(self, reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
        kind = _kind(reader)
        if kind != _kind(writer) or kind in PRIMITIVES:
            return self.mixed(reader, writer, path)
        if kind == "union":
            return self.unions(reader, writer, path)
        if kind == "array":
            return self.compare(reader.element, writer.element, f"{path}/items")
        if kind == "map":
            return self.compare(reader.element, writer.element, f"{path}/values")
        found = _names(reader, writer, path)
        if kind == "fixed" and reader.size != writer.size:
            info = f"expected: {writer.size}, found: {reader.size}"
            found.append(AvroDifference("FIXED_SIZE_MISMATCH", f"{path}/size", info))
        elif kind == "enum":
            found += _symbols(reader, writer, path)
        elif kind == "record":
            found += self.fields(reader, writer, path)
        return found

    def fields(self, reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
        written = {field.name: field for field in writer.fields}
        found: list[AvroDifference] = []
        for position, field in enumerate(reader.fields):
            source = _source(field, written)
            if source is not None:
                found += self.compare(field.type, source.type, f"{path}/fields/{position}/type")
            elif not field.has_default:
                at = f"{path}/fields/{position}"
                found.append(AvroDifference("READER_FIELD_MISSING_DEFAULT_VALUE", at, field.name))
        return found

    def unions(self, reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
        found: list[AvroDifference] = []
        for position, branch in enumerate(writer.branches):
            if self.compare(reader, branch, f"{path}/{position}"):
                found.append(_lacking(branch, f"{path}/{position}"))
        return found

    def mixed(self, reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
        """Two types of different kinds: unions on one side, and promotions."""
        if writer.kind == "union":
            return [
                difference
                for position, branch in enumerate(writer.branches)
                for difference in self.compare(reader, branch, f"{path}/{position}")
            ]
        if reader.kind == "union":
            if any(not self.compare(branch, writer, path) for branch in _likely(reader, writer)):
                return []
            return [_lacking(writer, path)]
        if reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        info = (
            f"reader type: {_kind(reader).upper()} not compatible with writer type: "
            f"{_kind(writer).upper()}"
        )
        return [AvroDifference("TYPE_MISMATCH", path or "/", info)]


def _likely(reader: AvroNode, writer: AvroNode) -> list[AvroNode]:
    """The branches of a union, the one with the writer's name first: it nearly always matches."""
    named = reader.branch_by_name.get(writer.simple_name) if writer.name else None
    return reader.branches if named is None else [named, *reader.branches]


def _kind(node: AvroNode) -> str:
    return "record" if node.kind == "error" else node.kind


def _lacking(writer: AvroNode, path: str) -> AvroDifference:
    info = f"reader union lacking writer type: {_kind(writer).upper()}"
    return AvroDifference("MISSING_UNION_BRANCH", path or "/", info)


def _names(reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
    if reader.simple_name == writer.simple_name or writer.name in reader.aliases:
        return []
    return [AvroDifference("NAME_MISMATCH", f"{path}/name", f"expected: {writer.name}")]


def _symbols(reader: AvroNode, writer: AvroNode, path: str) -> list[AvroDifference]:
    missing = sorted(set(writer.symbols).difference(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [AvroDifference("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"[{', '.join(missing)}]")]


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """The writer's field that this reader's field gets its value from."""
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None
