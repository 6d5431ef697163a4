"""House rules that a formatter cannot see. STYLE.md says why each of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [ROOT / "src", ROOT / "tools", ROOT / "benchmarks", ROOT / "suites"]
GENERATED = ROOT / "src/ottla/wire/messages"
LOG = Path("src/ottla/storage/log.py")

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
COLUMNS_MAX = 100
VAGUE_CLASS = re.compile(
    # KIP-213 has two wrappers of its own.
    r"(Manager|Impl|Factory|Helper|Utils?|(?<!Subscription)(?<!Response)Wrapper)$"
    r"|^(Abstract|Base)[A-Z]"
)
VAGUE_FILE = re.compile(r"^(utils?|helpers?|common|misc|manager|base)\.py$")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")

# The door of each big dependency: nobody else imports it.
DOORS = {
    "uvloop": "src/ottla/net/loop.py",
    "kazoo": "src/ottla/cluster/zookeeper",
    "confluent_kafka": "src/ottla/client/",
    "pyspark": (
        "src/ottla/spark/",
        "src/ottla/engine/",
        "src/ottla/queries/",
        "src/ottla/sql/run/",
        "src/ottla/streams/run/",
        "src/ottla/connect/run/",
        "src/pyspark_ottla/",
    ),
}
# Rooms with no I/O in them: bytes and decisions only.
SANS_IO = ("wire", "records", "auth", "coordinator")
IO_MODULES = {"asyncio", "socket", "select", "threading", "time", "datetime"}


def sources() -> Iterator[tuple[Path, str, ast.Module]]:
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            if GENERATED not in path.parents:
                text = path.read_text(encoding="utf-8")
                yield path.relative_to(ROOT), text, ast.parse(text)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Nothing that is looked for stands within an expression, and those are most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def length_problems(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{path}: {len(lines)} lines"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield f"{path}:{number}: {len(line)} columns"
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {size} lines"


def name_problems(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    if VAGUE_FILE.match(path.name):
        yield f"{path}: a drawer, not a name"
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished"
    for node in statements(tree):
        if isinstance(node, ast.ClassDef) and VAGUE_CLASS.search(node.name):
            yield f"{path}:{node.lineno}: class {node.name}"


def import_problems(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    name = path.as_posix()
    if not name.startswith("src/"):
        return
    room = name.split("/")[2]
    for line, module in imported(tree):
        door = DOORS.get(module)
        if door is not None and not name.startswith(door):
            yield f"{name}:{line}: {module} is imported only in {door}"
        if room in SANS_IO and module in IO_MODULES:
            yield f"{name}:{line}: {room}/ does no I/O, it can't import {module}"
        if room == "storage" and module in ("asyncio", "socket"):
            yield f"{name}:{line}: storage/ is synchronous and knows no network"


def assigned(tree: ast.Module) -> Iterator[ast.expr]:
    for node in statements(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            yield from node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target


def log_problems(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    """Only storage/log.py writes to a `Log`. The `LogDir` of a log has its own attributes."""
    if not path.is_relative_to("src") or path == LOG:
        return
    for target in assigned(tree):
        owner = ast.unparse(target).rpartition(".")[0]
        if re.search(r"(^|\.)_?log(\.(?!dir\b)\w+)*$", owner):
            yield f"{path}:{target.lineno}: {ast.unparse(target)} is written outside of {LOG}"


def file_problems() -> Iterator[str]:
    """pytest imports test files by their bare names: two of one name can't be collected."""
    seen: dict[str, Path] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("__init__.py", "conftest.py"):
            continue
        if path.name in seen:
            yield f"{path.relative_to(ROOT)}: there is {seen[path.name].relative_to(ROOT)}, too"
        seen[path.name] = path


@pytest.mark.timeout(600)  # ten seconds of work, which a busy machine may make minutes of
def test_the_house_is_tidy() -> None:
    """One test, because parsing all sources takes longer than looking at them."""
    rules = (length_problems, name_problems, import_problems, log_problems)
    problems = [found for source in sources() for rule in rules for found in rule(*source)]
    assert problems + list(file_problems()) == []
