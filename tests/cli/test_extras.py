"""Commands that need an extra name it and say how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from ottla.cli.extras import require_spark
from ottla.cli.kafka.tool import ToolError
from ottla.extras import EXTRAS, install_command, requirement

HOUSE: Final = Path(__file__).parents[2]
WITH_REGISTRY: Final = (
    "from ottla.testing import LocalCluster; LocalCluster(registry=True).__enter__()"
)
MORE: Final = ("numpy", "py4j", "rocksdict", "librt", "puresasl", "jwt", "celpy", "psycopg")
BLOCKED: Final = sorted({name.partition(".")[0] for entry in EXTRAS.values() for name in entry})

# A plain installation: none of the extras' libraries can be found.
PLAIN: Final = f"""
import sys
class ImportBlocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {[*BLOCKED, *MORE]!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, ImportBlocker())
"""


def plain_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PLAIN + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_an_installed_package_raises_no_error() -> None:
    require_spark("ottla sql")


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else 1)
    with pytest.raises(ToolError) as raised:
        require_spark("ottla sql")
    assert str(raised.value) == (
        f"`ottla sql` needs pyspark, which is not installed: {install_command('spark')}"
    )


def test_checking_for_a_package_imports_nothing() -> None:
    before = set(sys.modules)
    require_spark("ottla sql")
    assert not (set(sys.modules) - before) & set(EXTRAS["spark"])


@pytest.mark.parametrize(
    ("direct_url", "given"),
    [
        (None, "ottla[spark]"),  # from an index
        (
            '{"dir_info": {"editable": true}, "url": "file:///src/my%20ottla"}',
            "/src/my ottla[spark]",
        ),
        (
            '{"archive_info": {}, "url": "file:///tmp/ottla-0.1.0.whl"}',
            "/tmp/ottla-0.1.0.whl[spark]",
        ),
        (
            '{"url": "https://h/ottla.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "ottla[spark] @ git+https://h/ottla.git@abc",
        ),
    ],
)
def test_the_remedy_names_where_ottla_was_installed_from(
    direct_url: str | None, given: str
) -> None:
    assert requirement(direct_url, "spark") == given
    assert requirement(direct_url, "") == given.replace("[spark]", "")


@pytest.mark.parametrize(
    ("statement", "room", "extra"),
    [
        ("from ottla.spark import session", "ottla.spark", "spark"),
        ("from ottla.sql import SqlTestDriver", "ottla.sql", "spark"),
        ("from ottla.streams.run.application import Application", "ottla.streams.run", "spark"),
        ("from ottla.connect.run import connector_runner", "ottla.connect.run", "spark"),
        (WITH_REGISTRY, "LocalCluster(registry=True)", "registry"),
        ("import pyspark_ottla", "ottla.spark", "spark"),
    ],
)
def test_an_import_without_its_extra_names_the_extra(statement: str, room: str, extra: str) -> None:
    last = plain_python(statement).stderr.splitlines()[-1]
    assert last.startswith(f"ottla.extras.MissingExtra: {room}")
    assert last.endswith(f"not installed: {install_command(extra)}")


@pytest.mark.parametrize(
    "statement",
    [
        "from ottla.client import Admin, Avro, Consumer, JsonSchema, Producer, SchemaRegistry",
        "from ottla.streams import Topology, TopologyTestDriver",
        "from ottla.testing import LocalCluster",
        "from ottla.connect.api import SourceConnector",
        "from ottla.cli.main import main; main(['--help'])",
    ],
)
def test_verbs_without_an_extra_work_without_extras(statement: str) -> None:
    done = plain_python(statement)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["sql"], "spark"),
        (["streams", "run", "x.py"], "spark"),
        (["connect", "worker"], "spark"),
        (["registry"], "registry"),
        (["serve", "--registry"], "registry"),
        (["cluster", "up"], "zookeeper"),
    ],
)
def test_a_verb_without_its_extra_prints_one_sentence(words: list[str], extra: str) -> None:
    done = plain_python(f"from ottla.cli.main import main; sys.exit(main({words!r}))")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert install_command(extra) in done.stderr


def test_no_message_claims_that_ottla_is_on_pypi() -> None:
    """Docs have `pip install '.[spark]'` until it is."""
    pages = [*HOUSE.glob("*.md"), *HOUSE.glob("docs/*.md"), *HOUSE.glob("examples/*")]
    sources = [*HOUSE.glob("src/**/*.py")]
    for path in [*pages, *sources]:
        text = path.read_text(encoding="utf-8")
        assert "pip install ottla" not in text, path
        assert "pip install 'ottla[" not in text, path
