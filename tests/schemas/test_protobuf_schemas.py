"""Protobuf: text, descriptors beside protoc's own, and what an update may change."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schemas.compatibility.incompatibilities import incompatibilities
from ottla.schemas.protobuf.descriptor_writer import descriptor_of
from ottla.schemas.protobuf.message_types import message_indexes
from ottla.schemas.record_names import record_names
from ottla.schemas.schema_types import InvalidSchema, formatted, normalize, parse

EVERYTHING = """
syntax = "proto3";
package a.b; // a package
import "google/protobuf/timestamp.proto";
option java_package = "x.y";
option optimize_for = SPEED;

/* A message. */
message M {
  reserved 20 to 22, 30; reserved "gone";
  option deprecated = true;
  // the name
  string first_name = 1 [deprecated = true, json_name = "n"];
  optional int32 maybe = 2;
  repeated fixed64 many = 3 [packed = false];
  map<string, Inner> by_name = 4;
  oneof choice { bytes one = 5; E two = 6; }
  .google.protobuf.Timestamp at = 7;
  M.Inner.Deep deep = 8;
  message Inner { message Deep { bool yes = 1; } Deep deep = 1; }
  enum E { option allow_alias = true; ZERO = 0; NONE = 0; MINUS = -1; }
}
service S { rpc Get (M) returns (stream M.Inner) { option deprecated = true; } }
"""
CANONICAL = """syntax = "proto3";
package a.b;

import "google/protobuf/timestamp.proto";

option java_package = "x.y";
option optimize_for = SPEED;

// A message.
message M {
  reserved 20 to 22, 30;
  reserved "gone";

  option deprecated = true;

  // the name
  string first_name = 1 [
    deprecated = true,
    json_name = "n"
  ];
  optional int32 maybe = 2;
  repeated fixed64 many = 3 [packed = false];
  map<string, Inner> by_name = 4;
  .google.protobuf.Timestamp at = 7;
  M.Inner.Deep deep = 8;

  oneof choice {
    bytes one = 5;
    E two = 6;
  }

  message Inner {
    Deep deep = 1;
  \n    message Deep {
      bool yes = 1;
    }
  }
  enum E {
    option allow_alias = true;
    ZERO = 0;
    NONE = 0;
    MINUS = -1;
  }
}

service S {
  rpc Get (M) returns (stream M.Inner) {
    option deprecated = true;
  };
}
"""
PROTO2 = """
syntax = "proto2";
message P {
  required int32 id = 1;
  optional string name = 2 [default = "x\\"y"];
  repeated group Row = 3 { optional sint32 cell = 1; }
  extensions 100 to 199, 1000 to max;
  extend P { optional double ext = 150; }
}
extend P { repeated P more = 101; }
"""


def compiled(text: str, folder: Path) -> Any:
    """What protoc makes of a file."""
    (folder / "m.proto").write_text(text)
    out = folder / "out.bin"
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{folder}", f"-I{include}", f"--descriptor_set_out={out}", "m.proto"]
    assert protoc.main(arguments) == 0
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


def in_order(file: Any) -> Any:
    """protoc has fields in the order of the text; Confluent's form has oneofs last."""
    todo = list(file.message_type)
    while todo:
        message = todo.pop()
        for part in (message.field, message.nested_type):
            part.sort(key=lambda item: item.name)
        todo += message.nested_type
    return file


def test_canonical_text_has_confluents_form_and_is_stable() -> None:
    assert parse("PROTOBUF", EVERYTHING, {}).canonical == CANONICAL
    assert parse("PROTOBUF", CANONICAL, {}).canonical == CANONICAL


@pytest.mark.parametrize("text", [EVERYTHING, PROTO2])
def test_descriptors_are_those_of_protoc(text: str, tmp_path: Path) -> None:
    theirs = compiled(text, tmp_path)
    ours = descriptor_of(parse("PROTOBUF", text, {}).body, "m.proto")
    assert in_order(ours) == in_order(theirs)


@pytest.mark.parametrize("text", [EVERYTHING, PROTO2])
def test_a_descriptor_in_base64_is_the_same_schema(text: str, tmp_path: Path) -> None:
    encoded = base64.b64encode(compiled(text, tmp_path).SerializeToString()).decode()
    from_descriptor = parse("PROTOBUF", encoded, {})
    assert incompatibilities("FULL", from_descriptor, [parse("PROTOBUF", text, {})]) == []
    serialized = formatted("PROTOBUF", encoded, {}, "serialized")
    again = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    again.name = "m.proto"
    assert in_order(again) == in_order(compiled(text, tmp_path))


def test_the_normal_form_has_full_names_in_order() -> None:
    one = 'syntax = "proto3"; package p; message A { B b = 2; int32 a = 1; } message B {}'
    two = 'syntax = "proto3"; package p; message A { int32 a = 1; .p.B b = 2; } message B {}'
    assert normalize("PROTOBUF", one, {}) == normalize("PROTOBUF", two, {})
    assert ".p.B b = 2;" in normalize("PROTOBUF", one, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {", "line 1: expected more"),
        ("message A {\n int32 a 1; }", "line 2: expected =, found 1"),
        ("message A { int32 a = 0; }", "has the number 0"),
        ("message A { int32 a = 19000; }", "19000"),
        ("message A { int32 a = 1; int32 b = 1; }", "the same number 1"),
        ("message A { int32 a = 1; int32 a = 2; }", '"a" is already defined in A'),
        ("message A { reserved 1; int32 a = 1; }", "reserved"),
        ("message A { B b = 1; }", '"B" is not defined'),
        ("message A {} message A {}", '"A" is already defined'),
        ('import "b.proto";', 'import "b.proto" is not among the references'),
        ('syntax = "proto3"; message A { required int32 a = 1; }', "no required"),
        ('syntax = "proto3"; enum E { A = 1; }', "is 0"),
        ("enum E { A = 0; B = 0; }", "allow_alias"),
        ("message A { map<double, int32> a = 1; }", "key of a map"),
        ('syntax = "proto4";', "proto4"),
    ],
)
def test_invalid_schemas_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse("PROTOBUF", text, {})


def backward(old: str, new: str) -> list[str]:
    schemas = [parse("PROTOBUF", f'syntax = "proto2"; {text}', {}) for text in (old, new)]
    messages = incompatibilities("BACKWARD", schemas[1], schemas[:1])
    return [message.split("'")[1] for message in messages]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("message A { optional int32 a = 1; }", "message A { optional bool b = 1; }", []),
        ("message A { optional int32 a = 1; }", "message A { optional sint32 a = 1; }",
         ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message A { optional int32 a = 1; }", "message A { repeated int32 a = 1; }",
         ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("message A { optional string a = 1; }", "message A { repeated bytes a = 1; }", []),
        ("message A { optional string a = 1; }", "message A { optional A a = 1; }",
         ["FIELD_KIND_CHANGED"]),
        ("message A { required int32 a = 1; }", "message A {}", ["REQUIRED_FIELD_REMOVED"]),
        ("message A {}", "message A { required int32 a = 1; }", ["REQUIRED_FIELD_ADDED"]),
        ("message A {} message B {}", "message A {}", ["MESSAGE_REMOVED"]),
        ("message A {}", "package p; message A {}", ["PACKAGE_CHANGED"]),
        ("message A { oneof o { int32 a = 1; int32 b = 2; } }",
         "message A { oneof o { int32 a = 1; } }", ["ONEOF_FIELD_REMOVED"]),
        ("message A { oneof o { int32 a = 1; int32 b = 2; } }", "message A {}", []),
        ("message A { optional int32 a = 1; optional int32 b = 2; }",
         "message A { oneof o { int32 a = 1; int32 b = 2; } }", ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
        ("message A { optional A a = 1; }", "message A { optional A a = 1; optional A b = 2; }",
         []),
    ],
)  # fmt: skip
def test_differences_have_confluents_names(old: str, new: str, found: list[str]) -> None:
    assert backward(old, new) == found


def test_a_message_names_path_sides_and_remedy() -> None:
    old = parse("PROTOBUF", "message A { optional int32 a = 7; }", {})
    new = parse("PROTOBUF", "message A { optional string a = 7; }", {})
    [message] = incompatibilities("FORWARD", new, [old])
    assert message.startswith("{errorType:'FIELD_SCALAR_KIND_CHANGED', description:'The old schema")
    assert "'#/A/7'" in message
    assert "optional string a before, optional int32 a now" in message
    assert "remedy:'stay within" in message


def test_a_referenced_message_is_compared_by_its_fields() -> None:
    main = 'syntax = "proto3"; import "r.proto"; message A { p.B b = 1; }'
    before = {"r.proto": 'syntax = "proto3"; package p; message B { int32 a = 1; }'}
    wider = {"r.proto": 'syntax = "proto3"; package p; message B { int64 a = 1; }'}
    other = {"r.proto": 'syntax = "proto3"; package p; message B { string a = 1; }'}
    old = parse("PROTOBUF", main, before)
    assert incompatibilities("BACKWARD", parse("PROTOBUF", main, wider), [old]) == []
    assert incompatibilities("BACKWARD", parse("PROTOBUF", main, other), [old])


# 1 is a constant of E: an unknown one is kept as unknown bytes in proto2.
KINDS = {"int32": 1, "int64": 1, "bool": True, "sint32": -3, "string": "s", "bytes": b"b",
         "fixed32": 7, "double": 1.5, "E": 1, "Inner": None}  # fmt: skip
FIELDS = st.dictionaries(st.integers(1, 4), st.sampled_from(sorted(KINDS)), max_size=4)


def proto(fields: dict[int, str]) -> str:
    lines = "".join(f"optional {kind} f{number} = {number};" for number, kind in fields.items())
    inner = "message Inner { optional int32 x = 1; } enum E { A = 0; B = 1; }"
    return f'syntax = "proto2"; message M {{ {lines} {inner} }}'


def message_class(fields: dict[int, str]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_of(parse("PROTOBUF", proto(fields), {}).body, "m.proto"))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FIELDS, FIELDS)
def test_data_of_compatible_schemas_can_be_read(old: dict[int, str], new: dict[int, str]) -> None:
    schemas = [parse("PROTOBUF", proto(fields), {}) for fields in (old, new)]
    if incompatibilities("BACKWARD", schemas[1], schemas[:1]):
        return
    written = message_class(old)()
    for number, kind in old.items():
        if kind == "Inner":
            getattr(written, f"f{number}").x = 9
        else:
            setattr(written, f"f{number}", KINDS[kind])
    read = message_class(new).FromString(written.SerializeToString())
    for number in old.keys() & new.keys():
        # A number that both know has arrived as a field, not as unknown bytes.
        assert read.HasField(f"f{number}"), (number, old, new)


def test_explicit_map_entries_are_kept_and_are_maps() -> None:
    """As Confluent's registry keeps them for a schema that came as a descriptor."""
    text = """syntax = "proto3";
        message Outer { map<string, int32> m = 1; message Inner { int32 i = 1; } }"""
    plain = parse("PROTOBUF", text, {})
    made = parse("PROTOBUF", formatted("PROTOBUF", text, {}, "serialized"), {})
    assert "option map_entry = true;" in made.canonical
    assert "repeated .Outer.MEntry m = 1;" in made.canonical
    assert message_indexes(made.body.file, "Outer.MEntry") == (0, 1)
    assert normalize("PROTOBUF", made.canonical, {}) == normalize("PROTOBUF", text, {})
    assert incompatibilities("FULL", made, [plain]) == []
    assert record_names(made) == {"Outer", "Outer.Inner"}
