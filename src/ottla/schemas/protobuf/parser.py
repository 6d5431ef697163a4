"""A recursive-descent parser of .proto files: proto2, proto3, and what editions have of both."""

from __future__ import annotations

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.limits import NODES_MAX
from ottla.schemas.protobuf.proto_file import (
    ProtoConstant,
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoMethod,
    ProtoOneof,
    ProtoService,
)
from ottla.schemas.protobuf.token_stream import TokenStream

_LABELS = ("required", "optional", "repeated")
_SYNTAXES = ("proto2", "proto3")
NUMBER_MAX = 2**29 - 1
_INT32 = range(-(2**31), 2**31)
# protoc's limit on the nesting of messages.
MESSAGE_DEPTH_MAX = 32


def parse_proto(text: str) -> ProtoFile:
    return _ProtoParser(text).file()


class _ProtoParser(TokenStream):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = 0
        self.depth = 0

    def count(self) -> None:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise InvalidSchema(f"the schema has more than {NODES_MAX} types and fields")

    def file(self) -> ProtoFile:
        file = ProtoFile()
        while self.peek.kind != "end":
            token = self.take()
            if token.text == ";":
                continue
            statement = _STATEMENTS.get(token.text)
            if statement is None:
                raise self.wrong(token, "syntax, package, import, option, message, enum or service")
            statement(self, file, token.doc)
        return file

    def syntax(self, file: ProtoFile, doc: str) -> None:
        self.expect("=")
        file.syntax = self.string()
        if file.syntax not in _SYNTAXES:
            raise InvalidSchema(f'syntax "{file.syntax}" is not one of {", ".join(_SYNTAXES)}')
        self.expect(";")

    def edition(self, file: ProtoFile, doc: str) -> None:
        self.expect("=")
        file.edition = self.string()
        self.expect(";")

    def package(self, file: ProtoFile, doc: str) -> None:
        if file.package:
            raise InvalidSchema(f"line {self.peek.line}: a second package")
        file.package = self.word()
        self.expect(";")

    def imported(self, file: ProtoFile, doc: str) -> None:
        kind = self.take().text if self.peek.text in ("public", "weak") else ""
        file.imports.append((kind, self.string()))
        self.expect(";")

    def file_option(self, file: ProtoFile, doc: str) -> None:
        file.options.append(self.option_statement())

    def file_message(self, file: ProtoFile, doc: str) -> None:
        file.types.append(self.message(self.name(), doc))

    def file_enum(self, file: ProtoFile, doc: str) -> None:
        file.types.append(self.enum(doc))

    def file_extend(self, file: ProtoFile, doc: str) -> None:
        file.extends.append(self.extend(doc))

    def service(self, file: ProtoFile, doc: str) -> None:
        service = ProtoService(self.name(), doc=doc)
        self.expect("{")
        while not self.accept("}"):
            token = self.take()
            if token.text == "option":
                service.options.append(self.option_statement())
            elif token.text == "rpc":
                service.methods.append(self.method(token.doc))
            elif token.text != ";":
                raise self.wrong(token, "rpc or option")
        file.services.append(service)

    def method(self, doc: str) -> ProtoMethod:
        self.count()
        name = self.name()
        request_stream, request = self.method_type()
        self.expect("returns")
        response_stream, response = self.method_type()
        method = ProtoMethod(name, request, response, request_stream, response_stream, doc=doc)
        if self.accept("{"):
            while not self.accept("}"):
                token = self.take()
                if token.text == "option":
                    method.options.append(self.option_statement())
                elif token.text != ";":
                    raise self.wrong(token, "option")
            self.accept(";")
        else:
            self.expect(";")
        return method

    def method_type(self) -> tuple[bool, str]:
        self.expect("(")
        stream = self.peek.text == "stream" and self.next.text != ")"
        if stream:
            self.take()
        name = self.word()
        self.expect(")")
        return stream, name

    def message(self, name: str, doc: str) -> ProtoMessage:
        self.count()
        message = ProtoMessage(name, doc=doc)
        self.depth += 1
        if self.depth > MESSAGE_DEPTH_MAX:
            raise InvalidSchema(f"messages are nested more than {MESSAGE_DEPTH_MAX} deep")
        self.expect("{")
        while not self.accept("}"):
            self.member(message)
        self.depth -= 1
        return message

    def member(self, message: ProtoMessage) -> None:
        token = self.peek
        word = token.text
        # A field may be called `message` or have a type called `option`: look one token ahead.
        after = self.next.kind
        if word == ";":
            self.take()
        elif word == "message" and self.after_next.text == "{":
            self.take()
            message.types.append(self.message(self.name(), token.doc))
        elif word == "enum" and self.after_next.text == "{":
            self.take()
            message.types.append(self.enum(token.doc))
        elif word == "extend" and self.after_next.text == "{":
            self.take()
            message.extends.append(self.extend(token.doc))
        elif word == "oneof" and self.after_next.text == "{":
            self.take()
            message.oneofs.append(self.oneof(token.doc))
        elif word == "option" and self.third.kind != "number":
            self.take()
            message.options.append(self.option_statement())
        elif word == "reserved" and after in ("number", "text", "mark"):
            self.take()
            message.reserved.append(self.ranges())
        elif word == "extensions" and after in ("number", "mark"):
            self.take()
            message.extensions.append(self.ranges())
        else:
            message.fields.append(self.field())

    def field(self) -> ProtoField:
        self.count()
        doc = self.peek.doc
        label = self.take().text if self.peek.text in _LABELS and self.next.text != "=" else ""
        if self.peek.text == "group" and self.after_next.text == "=":
            return self.group(label, doc)
        key = ""
        if self.peek.text == "map" and self.next.text == "<":
            self.take()
            self.take()
            key = self.word()
            self.expect(",")
            kind = self.word()
            self.expect(">")
        else:
            kind = self.word()
        name = self.name()
        self.expect("=")
        field = ProtoField(name, self.field_number(name), kind, label, key, doc=doc)
        field.options = self.bracketed_options()
        self.expect(";")
        return field

    def group(self, label: str, doc: str) -> ProtoField:
        self.take()
        name = self.name()
        self.expect("=")
        number = self.field_number(name)
        options = self.bracketed_options()
        body = self.message(name, "")
        field = ProtoField(name.lower(), number, "group", label, options=options, doc=doc)
        field.group = body
        return field

    def field_number(self, name: str) -> int:
        number = self.integer()
        if not 1 <= number <= NUMBER_MAX or 19000 <= number <= 19999:
            raise InvalidSchema(
                f"field {name} has the number {number}: use 1 to {NUMBER_MAX}, but not 19000 to "
                "19999, which Protobuf keeps for itself"
            )
        return number

    def oneof(self, doc: str) -> ProtoOneof:
        oneof = ProtoOneof(self.name(), doc=doc)
        self.expect("{")
        while not self.accept("}"):
            if self.peek.text == "option" and self.third.kind != "number":
                self.take()
                oneof.options.append(self.option_statement())
            elif not self.accept(";"):
                field = self.field()
                if field.label or field.map_key:
                    raise InvalidSchema(f"field {field.name} of a oneof has a label or is a map")
                oneof.fields.append(field)
        return oneof

    def extend(self, doc: str) -> ProtoExtend:
        extend = ProtoExtend(self.word(), doc=doc)
        self.expect("{")
        while not self.accept("}"):
            if not self.accept(";"):
                extend.fields.append(self.field())
        return extend

    def enum(self, doc: str) -> ProtoEnum:
        self.count()
        enum = ProtoEnum(self.name(), doc=doc)
        self.expect("{")
        while not self.accept("}"):
            token = self.take()
            if token.text == ";":
                continue
            if token.text == "option" and self.peek.text != "=":
                enum.options.append(self.option_statement())
            elif token.text == "reserved" and self.peek.text != "=":
                enum.reserved.append(self.ranges())
            else:
                enum.constants.append(self.constant(token.text, token.doc))
        return enum

    def constant(self, name: str, doc: str) -> ProtoConstant:
        self.count()
        self.check_name(name)
        self.expect("=")
        number = self.integer()
        if number not in _INT32:
            raise InvalidSchema(
                f"enum constant {name} has the number {number}, which does not fit 32 bits"
            )
        options = self.bracketed_options()
        self.expect(";")
        return ProtoConstant(name, number, options, doc)

    def ranges(self) -> list[tuple[int, int] | str]:
        found: list[tuple[int, int] | str] = []
        while True:
            if self.peek.kind == "text":
                found.append(self.string())
            elif self.peek.kind == "word" and self.peek.text != "max":
                found.append(self.name())  # editions
            else:
                low = high = self.range_end()
                if self.accept("to"):
                    high = self.range_end()
                found.append((low, high))
            if not self.accept(","):
                break
        self.bracketed_options()
        self.expect(";")
        return found

    def range_end(self) -> int:
        return NUMBER_MAX if self.accept("max") else self.integer()


_STATEMENTS = {
    "syntax": _ProtoParser.syntax,
    "edition": _ProtoParser.edition,
    "package": _ProtoParser.package,
    "import": _ProtoParser.imported,
    "option": _ProtoParser.file_option,
    "message": _ProtoParser.file_message,
    "enum": _ProtoParser.file_enum,
    "extend": _ProtoParser.file_extend,
    "service": _ProtoParser.service,
}
