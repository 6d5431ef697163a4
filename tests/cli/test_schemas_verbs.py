"""`ottla schemas`, against a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import main
from ottla.cli.verbs.incompatibilities import read_incompatibilities
from ottla.testing import LocalCluster

Tool = Callable[..., Any]
FIELDS = {"name": "id", "type": "long"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture
def schemas(run: Tool, cluster: LocalCluster) -> Tool:
    def schemas(*words: str, stdin: str = "") -> Any:
        return run(main, "schemas", *words, "-r", cluster.registry_url, stdin=stdin)

    return schemas


@pytest.fixture
def order(tmp_path: Path) -> str:
    return avro(tmp_path / "order.avsc", FIELDS)


@pytest.fixture
def broken(tmp_path: Path) -> str:
    return avro(tmp_path / "broken.avsc", {"name": "id", "type": "string"})


def avro(path: Path, *fields: dict[str, Any]) -> str:
    path.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    return str(path)


def test_a_subject_from_its_first_version_to_its_end(
    schemas: Tool, topic: str, order: str, tmp_path: Path
) -> None:
    assert "version 1, id" in schemas("register", topic, order).out
    again = schemas("register", topic, order)
    assert f"{topic} has this schema already: version 1" in again.out
    second = avro(tmp_path / "2.avsc", FIELDS, {"name": "n", "type": "int", "default": 0})
    assert schemas("check", topic, second).out.startswith("compatible")
    assert schemas("register", topic, second, "--json").code == 0
    (listed,) = json.loads(schemas("list", topic, "--json").out)
    assert (listed["subject"], listed["version"]) == (topic, 2)
    assert topic in schemas("list").out
    shown = schemas("show", topic)
    assert shown.lines[0].startswith(f"{topic} version 2 of 2  AVRO, id ")
    assert json.loads(schemas("show", topic, "--version", "1", "--text").out)["name"] == "Order"
    by_id = schemas("show", "--id", str(listed["id"]))
    assert by_id.lines[0].startswith(f"{topic} version 2")
    assert schemas("delete", topic, "--yes").out == f"deleted {topic} versions 1, 2\n"
    assert f"No subject begins with {topic}" in schemas("list", topic).out
    assert "deleted" in schemas("list", topic, "--deleted").out


def test_an_incompatible_schema_is_refused(
    schemas: Tool, topic: str, order: str, broken: str
) -> None:
    schemas("register", topic, order)
    for verb in ("check", "register"):
        ran = schemas(verb, topic, broken)
        assert ran.code == 1
        assert f"incompatible with {topic} version 1, level BACKWARD" in ran.out
        assert "/fields/0/type  TYPE_MISMATCH" in ran.out
        assert "sides:  reader type: STRING not compatible with writer type: LONG" in ran.out
        assert "remedy: keep the type" in ran.out
    said = json.loads(schemas("check", topic, broken, "--version", "latest", "--json").out)
    assert (said["is_compatible"], said["findings"][0]["path"]) == (False, "/fields/0/type")
    schemas("config", topic, "--level", "none")
    assert schemas("check", topic, broken).code == 0
    assert schemas("config", topic).out == f"NONE  {topic}\n"
    assert schemas("config", topic, "--unset").out == f"BACKWARD  {topic}\n"


def test_diff_shows_differences_and_compatibility(
    schemas: Tool, topic: str, order: str, tmp_path: Path
) -> None:
    schemas("register", topic, order)
    assert "has one version" in schemas("diff", topic).err
    grown = avro(tmp_path / "grown.avsc", FIELDS, {"name": "n", "type": "int"})
    ran = schemas("diff", topic, grown)
    assert '+      "name": "n",' in ran.lines
    assert "BACKWARD (new readers, old records): no" in ran.lines
    assert "FORWARD (old readers, new records): yes" in ran.lines
    same = schemas("diff", topic, "1", "latest")
    assert same.lines[0] == "The texts are the same."
    said = json.loads(schemas("diff", topic, grown, "--json").out)
    assert (len(said["backward"]), said["forward"]) == (1, [])


def test_other_languages_with_references(schemas: Tool, topic: str, tmp_path: Path) -> None:
    money = "syntax = 'proto3'; message Money { int64 cents = 1; }"
    assert schemas("register", f"{topic}-money", "-", "--type", "protobuf", stdin=money).code == 0
    order = tmp_path / "order.proto"
    order.write_text('syntax = "proto3"; import "money.proto"; message Order { Money m = 1; }')
    missing = schemas("register", topic, str(order))
    assert 'import "money.proto" is not among the references' in missing.err
    reference = f"money.proto={topic}-money:1"
    assert schemas("register", topic, str(order), "--reference", reference).code == 0
    shown = schemas("show", topic)
    assert f"  money.proto is {topic}-money version 1" in shown.lines
    assert schemas("diff", topic, str(order), "--reference", reference).code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "nope"], "`ottla schemas list` shows the subjects there are."),
        (["show"], "give a subject or --id"),
        (["check", "nope", "FILE"], "nope has no versions, so there is nothing to compare with"),
        (["register", "x", "/nowhere.avsc"], "/nowhere.avsc: No such file or directory"),
        (["register", "x", "/nowhere"], "give --type avro, json or protobuf"),
        (["register", "x", "FILE", "--type", "xml"], "--type xml: expected avro, json or protobuf"),
        (["register", "x", "FILE", "--reference", "a"], "expected NAME=SUBJECT:VERSION"),
        (["config", "--level", "nope"], "Valid values are none, backward"),
    ],
)
def test_errors_name_the_remedy(schemas: Tool, order: str, words: list[str], sentence: str) -> None:
    ran = schemas(*(order if word == "FILE" else word for word in words))
    assert sentence in ran.err
    assert ran.code == 1


def test_an_unreachable_registry_is_reported(run: Tool) -> None:
    ran = run(main, "schemas", "list", "-r", "http://127.0.0.1:1")
    assert "`ottla serve --registry` or `ottla registry` starts one" in ran.err
    assert run(main, "schemas", "list", "-r", "ftp://x").err.startswith("error --registry:")


def test_a_password_comes_from_standard_input_where_there_is_no_terminal(
    run: Tool, tmp_path: Path
) -> None:
    file = str(tmp_path / "users.properties")
    ran = run(main, "rest-users", "add", file, "ann", stdin="secret\n")
    assert (ran.err, ran.code) == ("", 0)
    ran = run(main, "rest-users", "add", file, "ann")
    assert "there is no terminal to ask at" in ran.err
    assert ran.code == 1


def test_messages_of_confluents_registry_have_no_remedy() -> None:
    (found,) = read_incompatibilities(
        [
            "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type') of a field',"
            " additionalInfo:'reader type: STRING'}",
            "{oldSchemaVersion: 1}",
        ]
    )
    assert (found.path, found.sides, found.remedy) == ("/fields/0/type", "reader type: STRING", "")
