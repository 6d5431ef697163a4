"""Plugin discovery, by every name, in Ottla and in other distributions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ottla.connect.converters.avro import AvroConverter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import CLASSES, Plugin, Plugins, PluginType
from ottla.connect.transforms.insert_field import InsertField

MODULE = """
from ottla.connect.api import SourceConnector
from ottla.connect.converters.string_converter import StringConverter
from ottla.connect.transforms.transform import Transform
from ottla.connect.predicates import Predicate

class ParrotSourceConnector(SourceConnector):
    pass

class LoudConverter(StringConverter):
    def version(self):
        return "7.7"

class Shout(Transform):
    pass

class IsLoud(Predicate):
    pass
"""
ENTRY_POINTS = """
[ottla.connectors]
parrot = throwaway_parrot:ParrotSourceConnector
broken = throwaway_parrot:NotThere
[ottla.converters]
loud = throwaway_parrot:LoudConverter
[ottla.transforms]
shout = throwaway_parrot:Shout
wrong = throwaway_parrot:IsLoud
[ottla.predicates]
is-loud = throwaway_parrot:IsLoud
"""
ASK = """
import json, logging, sys
logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(message)s")
from ottla.connect.plugins import Plugins
found = [plugin for plugin in Plugins().all() if plugin.distribution == "throwaway-parrot"]
print(json.dumps([[e.kind.value, e.name, e.version, *sorted(e.names())] for e in found]))
print(Plugins().connector("ParrotSource").__name__, Plugins().connector("parrot").__name__)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A distribution that is built as a wheel and installed into a separate folder."""
    wheel = tmp_path / "throwaway_parrot-3.2.1-py3-none-any.whl"
    info = "throwaway_parrot-3.2.1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("throwaway_parrot.py", MODULE)
        archive.writestr(f"{info}/entry_points.txt", ENTRY_POINTS)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: throwaway-parrot\nVersion: 3.2.1\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    folder = tmp_path / "site"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*install, "--target", str(folder), str(wheel)], check=True, timeout=100)
    return folder


def test_an_installed_distribution_is_found_by_its_entry_points(installed: Path) -> None:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    listing, names = asked.stdout.splitlines()
    module = "throwaway_parrot"
    assert [entry[:3] for entry in json.loads(listing)] == [
        ["source", f"{module}.ParrotSourceConnector", "3.2.1"],
        ["converter", f"{module}.LoudConverter", "7.7"],
        ["header_converter", f"{module}.LoudConverter", "7.7"],
        ["transformation", f"{module}.Shout", "3.2.1"],
        ["predicate", f"{module}.IsLoud", "3.2.1"],
    ]
    assert names == "ParrotSourceConnector ParrotSourceConnector"
    assert "Loading plugin broken of throwaway-parrot failed" in asked.stderr
    assert (
        "throwaway_parrot:IsLoud is declared in ottla.transforms but is not a Transf"
        in asked.stderr
    )


@pytest.mark.parametrize("plugin", Plugins().all(), ids=lambda p: f"{p.kind.value}-{p.name}")
def test_every_built_in_plugin_loads_and_lists_its_settings(plugin: Plugin) -> None:
    made = plugin.new()
    assert isinstance(made, CLASSES[plugin.kind])
    assert made.config_def().key_infos() is not None  # type: ignore[attr-defined]
    assert plugin.version


def test_plugins_are_found_by_kafkas_names_and_ours() -> None:
    plugins = Plugins()
    for name in (
        "org.apache.kafka.connect.json.JsonConverter",
        "JsonConverter",
        "Json",
        "ottla.connect.converters.json:JsonConverter",
        "ottla.connect.converters.json.JsonConverter",
    ):
        assert plugins.find(name, PluginType.CONVERTER).load() is JsonConverter
        assert plugins.find(name, PluginType.HEADER_CONVERTER).load() is JsonConverter
    for name in ("io.confluent.connect.avro.AvroConverter", "AvroConverter", "Avro"):
        assert plugins.find(name, PluginType.CONVERTER).load() is AvroConverter
    for name in ("org.apache.kafka.connect.transforms.InsertField$Value", "InsertField$Value"):
        assert plugins.find(name).load() is InsertField
    assert len(plugins.all(PluginType.TRANSFORM)) == 26
    assert len(plugins.all(PluginType.PREDICATE)) == 3
    assert len(plugins.all(PluginType.CONVERTER)) == 12
    assert len(plugins.all(PluginType.HEADER_CONVERTER)) == 10


def test_a_class_named_by_its_module_needs_no_entry_point() -> None:
    found = Plugins([]).find("ottla.connect.predicates:RecordIsTombstone", PluginType.PREDICATE)
    assert found.kind is PluginType.PREDICATE
    with pytest.raises(ConnectException):
        Plugins([]).find("ottla.connect.predicates:RecordIsTombstone", PluginType.TRANSFORM)


def test_an_unknown_connector_error_lists_the_available_ones() -> None:
    only = Plugin(PluginType.PREDICATE, "x.Y", "ottla.connect.predicates:RecordIsTombstone")
    with pytest.raises(ConnectException) as caught:
        Plugins([only]).find("Nothing", PluginType.PREDICATE)
    assert str(caught.value).startswith(
        "Failed to find any class that implements Predicate and which name matches Nothing, "
        "available predicates are: PluginDesc{klass=class x.Y, name='x.Y', version="
    )
    with pytest.raises(ConnectException, match="Failed to find any class that implements Connec"):
        Plugins().connector("Nothing")


def test_a_plugin_that_fails_to_load_is_still_listed() -> None:
    broken = Plugin(PluginType.PREDICATE, "x.Broken", "no_such_module:Broken")
    assert broken.version
    with pytest.raises(ConnectException, match=r"class x\.Broken"):
        Plugins([broken]).find("Nothing", PluginType.PREDICATE)


def test_an_ambiguous_name_is_refused() -> None:
    one = Plugin(PluginType.PREDICATE, "a.Same", "ottla.connect.predicates:RecordIsTombstone")
    other = Plugin(PluginType.PREDICATE, "b.Same", "ottla.connect.predicates:HasHeaderKey")
    with pytest.raises(ConnectException, match="More than one predicate matches alias Same"):
        Plugins([one, other]).find("Same", PluginType.PREDICATE)
    assert Plugins([one, other]).find("b.Same", PluginType.PREDICATE) is other
