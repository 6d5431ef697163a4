"""The rules of docs/glossary.md: one meaning for each word, names that fit, plain English."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ottla"
GENERATED = SOURCE / "wire" / "messages"
FOLDERS = ("src", "tests", "benchmarks", "tools", "suites")
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

HOMONYMS_MAX = 0.01  # classes that share their name with another one
# Kafka's and Kafka Streams' own names.
PARTICIPLES = frozenset({"Windowed", "TimeWindowed", "SessionWindowed", "Suppressed"})
# Nouns that end like participles.
NOUNS = frozenset(
    {"String", "GroupListing", "TransactionListing", "RegistryNeed", "Finding", "Drawing"}
)
# Loop variables that do not say what they hold.
PRONOUNS = frozenset({"each", "it", "one", "this", "which", "x"})
# One API, verb or tool each; the name is Kafka's, the definition is `handle` or `main`.
NAMED_BY_CONVENTION = ("broker/handlers", "cli/verbs", "cli/kafka")
# What users import in Kafka Connect's words: they name what is in them, not one definition.
PUBLIC_MODULES = frozenset({"connect/api.py", "connect/data.py", "connect/errors.py"})

# Files of functions, named for what these work on.
SHARED_SUBJECTS = frozenset(
    {
        "client/oauth.py",
        "cluster/layout.py",
        "connect/values.py",
        "coordinator/consumer/classic_members.py",
        "coordinator/records.py",
        "coordinator/transactions/records.py",
        "records/checksum.py",
        "spark/session.py",
        "sql/engine/advice.py",
        "sql/functions/python/regular_expressions.py",
        "sql/moments.py",
        "sql/testing/report.py",
        "storage/recovery.py",
        "storage/replay.py",
        "testing/plugin.py",
    }
)

MODULE_PATH = re.compile(r"ottla(\.\w+)+(:\w+)?")
# They begin like the module paths of a room.
PROPERTIES = ("ottla.sql.spark.", "ottla.sql.state.", "ottla.connect.spark.")

# Subjects that hide who acts; the glossary lists the phrases.
CLAUSES = (
    r"(?:[.:;]\s+|\"{3})[Ww]ho(?:ever)? "
    r"(?:asks|finds|gets|has|needs|wants|reads|writes|is|was|does)\b"
)


def modules() -> Iterator[tuple[Path, str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if GENERATED not in path.parents:
            text = path.read_text(encoding="utf-8")
            yield path.relative_to(SOURCE), text, ast.parse(text)


@pytest.fixture(scope="module")
def parsed() -> list[tuple[Path, str, ast.Module]]:
    return list(modules())


@pytest.fixture(scope="module")
def written() -> list[tuple[Path, str]]:
    """All sources that a person wrote; not parsed, because that takes long for all tests."""
    return [
        (path.relative_to(ROOT), path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if GENERATED not in path.parents
    ]


def classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def test_a_class_name_has_one_meaning(parsed: list[tuple[Path, str, ast.Module]]) -> None:
    places = defaultdict(list)
    for path, _, tree in parsed:
        for name in classes(tree):
            places[name].append(path.as_posix())
    shared = {name: found for name, found in places.items() if len(found) > 1}
    share = sum(map(len, shared.values())) / sum(map(len, places.values()))
    assert share < HOMONYMS_MAX, shared


CLASS = re.compile(r"^ *class (\w*[a-z](?:ing|ed))\b", re.MULTILINE)


def test_classes_are_nouns(written: list[tuple[Path, str]]) -> None:
    found = [
        f"{path}: {name}"
        for path, text in written
        for name in CLASS.findall(text)
        if name not in PARTICIPLES | NOUNS
    ]
    assert found == []


def words(name: str) -> set[str]:
    """Its words, without the endings by which one differs from many, or a noun from its verb."""
    return {stem(word.lower()) for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


def stem(word: str) -> str:
    for ending, singular in ((r"ies$", "y"), (r"(?<=ss|ch|sh)es$", ""), (r"(?<!s)s$", "")):
        word = re.sub(ending, singular, word)
    word = re.sub(r"(?<=\w{3})(ation|ion|ate|ing|ed|er|or|e)$", "", word)
    return re.sub(r"([a-z])\1$", r"\1", word)  # planner, plan


def definitions(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_a_file_defines_what_it_is_called(parsed: list[tuple[Path, str, ast.Module]]) -> None:
    found = []
    for path, _, tree in parsed:
        if path.stem.startswith("__") or path.as_posix().startswith(NAMED_BY_CONVENTION):
            continue
        if path.as_posix() in PUBLIC_MODULES:
            continue
        if path.as_posix() in SHARED_SUBJECTS:
            continue
        own = words(path.stem)
        public = (name for name in definitions(tree) if not name.startswith("_"))
        if not any(own & words(name) for name in public):
            found.append(path.as_posix())
    assert found == []


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All string constants but the names of loggers."""
    loggers = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger")
        for argument in node.args
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in loggers
        ):
            yield node.lineno, node.value


def test_strings_with_a_module_path_name_what_there_is(
    parsed: list[tuple[Path, str, ast.Module]],
) -> None:
    """What is imported by a string (plugins, `python -m`, imports on demand) survives no rename."""
    known = {"ottla": set[str]()}
    for path, _, tree in parsed:
        module = ".".join(("ottla", *path.with_suffix("").parts)).removesuffix(".__init__")
        known[module] = set(definitions(tree))
    found = []
    for path, source, tree in parsed:
        for line, text in strings(tree) if '"ottla.' in source else ():
            if not MODULE_PATH.fullmatch(text) or text.startswith(PROPERTIES):
                continue
            module, _, name = text.partition(":")
            if ".".join(module.split(".")[:2]) not in known:
                continue  # a property, such as ottla.ssl.ktls.enable
            if module not in known or (name and name not in known[module]):
                found.append(f"{path}:{line}: {text}")
    assert found == []


def banned() -> list[str]:
    """The left column of the glossary's last table, each phrase with any white space inside."""
    table = GLOSSARY.read_text(encoding="utf-8").rpartition("| not | but |")[2]
    phrases = [
        phrase.strip()
        for row in table.splitlines()[2:]
        if row.startswith("|")
        for phrase in row.split("|")[1].split(",")
    ]
    assert len(phrases) > 10
    return [r"\b" + r"\s+".join(phrase.split()) + r"\b" for phrase in phrases]


# A line break within a comment or a paragraph; replaced by as many blanks, to keep the positions.
LINE_BREAK = re.compile(r"\n[ \t]*(?:#(?!#) ?)?")


def test_sentences_say_who_does_what(written: list[tuple[Path, str]]) -> None:
    """In sources and pages, also where a phrase is broken over two lines."""
    texts = [(path, text) for path, text in written if path.name != "test_words.py"]
    texts += [
        (page.relative_to(ROOT), page.read_text(encoding="utf-8"))
        for page in PAGES
        if page != GLOSSARY
    ]
    pattern = re.compile("|".join([*banned(), CLAUSES]))
    found = []
    for path, text in texts:
        unbroken = LINE_BREAK.sub(lambda broken: " " * len(broken[0]), text)
        for match in pattern.finditer(unbroken):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: {' '.join(match[0].split())}")
    assert found == []


def loop_variables(tree: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield from (name for name in ast.walk(node.target) if isinstance(name, ast.Name))


# In tests, too, which are not parsed; there `x` is allowed.
PRONOUN_LOOP = re.compile(r"\bfor (?:\w+, )*(each|it|one|this|which)\b(?:, \w+)* in\b")


def test_loop_variables_say_what_they_hold(
    parsed: list[tuple[Path, str, ast.Module]], written: list[tuple[Path, str]]
) -> None:
    found = [
        f"{path}:{name.lineno}: {name.id}"
        for path, _, tree in parsed
        for name in loop_variables(tree)
        if name.id in PRONOUNS
    ]
    found += [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]}"
        for path, text in written
        if path.name != "test_words.py"
        for match in PRONOUN_LOOP.finditer(text)
    ]
    assert found == []
