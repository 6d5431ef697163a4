"""Pages are true: their links, files, commands of make, names, and the picture of the rooms."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import grimp

from test_words import FOLDERS, PAGES, ROOT, SOURCE, definitions, modules

MARKDOWN_COLUMNS_MAX = 100
DECISION_LINES_MAX = 120  # two pages


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines of Markdown that are neither tables nor code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "|", "\t")):
            yield number, line


def can_be_wrapped(line: str) -> bool:
    """A line that is one code span (the long name of a test of others) or one link cannot."""
    return not re.fullmatch(r"(- )?(`+)[^`]+\2[,:.]?|\S*\[[^\]]*\]\(\S+\)\S*", line.strip())


def test_markdown_fits_100_columns() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {len(line)} columns"
        for page in PAGES
        for number, line in prose(page.read_text(encoding="utf-8"))
        if len(line) > MARKDOWN_COLUMNS_MAX and can_be_wrapped(line)
    ]
    assert found == []


def test_lists_are_the_same_on_github_and_on_the_site() -> None:
    """A paragraph of an item is indented by four columns for the site, by two for GitHub; an
    indented block of code after an item is a paragraph on both."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        item, before = False, ""
        for number, line in prose_and_code(page.read_text(encoding="utf-8")):
            if re.match(r"(?:[-*]|\d+\.) ", line):
                item = True
            elif line and not line.startswith(" "):
                item = False
            elif item and line and not before:
                found.append(f"{page.relative_to(ROOT)}:{number}: {line}")
            before = line
    assert found == []


def prose_and_code(text: str) -> Iterator[tuple[int, str]]:
    """Lines of Markdown that are not in fences."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line.rstrip()


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|^ {4,}\S[^\n]*$", re.DOTALL | re.MULTILINE)


def links(text: str) -> Iterator[tuple[int, str]]:
    """All links, also those in tables and those whose text is broken over two lines."""
    for match in LINK.finditer(CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    found: set[str] = set()
    for _, line in prose(text):
        if line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


def test_links_lead_somewhere() -> None:
    found = []
    for page in PAGES:
        for number, target in links(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            place, _, anchor = target.partition("#")
            path = (page.parent / place).resolve() if place else page
            if not path.exists() or (
                anchor and anchor not in anchors(path.read_text(encoding="utf-8"))
            ):
                found.append(f"{page.relative_to(ROOT)}:{number}: {target}")
    assert found == []


MODULE_FILE = re.compile(r"(?<![\w/.*<-])((?:\w+/)*\w+\.py)\b")
# What the pages tell users to write, and what STYLE.md forbids.
NOT_OURS = {"STYLE.md", "docs/testing.md", "docs/streams.md"}


def test_pages_name_files_that_exist() -> None:
    """DESIGN.md, the decisions and most other pages, by the end of the file's path."""
    there = {
        f"/{path.relative_to(ROOT).as_posix()}"
        for folder in (*FOLDERS, "examples", "deploy")
        for path in (ROOT / folder).rglob("*.py")
    } | {"/setup.py"}
    found = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if name in NOT_OURS or name.startswith(("docs/quickstart/", "CHANGELOG")):
            continue
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for file in MODULE_FILE.findall(line):
                if not any(path.endswith(f"/{file}") for path in there):
                    found.append(f"{name}:{number}: {file}")
    assert found == []


def test_pages_name_steps_of_make_that_exist() -> None:
    steps = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    found = [
        f"{page.relative_to(ROOT)}: make {step}"
        for page in PAGES
        for step in re.findall(
            r"(?:`|^ {4}(?:\$ )?)make ([a-z][a-z-]*)", page.read_text("utf-8"), re.MULTILINE
        )
        if step not in steps
    ]
    assert found == []


METHOD = re.compile(r"\b([A-Z]\w*[a-z]\w*)\.([a-z_]\w*)")
NAME = re.compile(r"\b(?:[A-Z][a-z]+(?:[A-Z][a-z]+)+|[a-z]\w*_\w+)\b")


def test_the_design_names_what_there_is() -> None:
    """Classes, methods, functions. Names of Kafka's, Spark's and products occur in sources, too."""
    parsed = list(modules())
    used = {word for _, text, _ in parsed for word in re.findall(r"\w+", text)}
    used |= {path.stem for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    members: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for node in (node for _, _, tree in parsed for node in tree.body):
        if isinstance(node, ast.ClassDef):
            members[node.name] |= set(definitions(node))
            bases[node.name] |= {ast.unparse(base).partition("[")[0] for base in node.bases}
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    found = [name for name in NAME.findall(design) if name not in used]
    for name, member in METHOD.findall(design):
        if name in members and not any(member in members[kind] for kind in {name, *bases[name]}):
            found.append(f"{name}.{member}")
    assert found == []


def test_the_picture_of_the_rooms_shows_the_imports() -> None:
    subprocess.run([sys.executable, ROOT / "tools/rooms_picture.py", "--check"], check=True)


def test_the_site_has_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE))
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in there if not page.startswith("decisions/")} <= named
    assert named <= there


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(
        r"\((\d{4}-[\w-]+\.md)\)", (folder / "index.md").read_text(encoding="utf-8")
    )
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


def test_decisions_have_two_pages_at_most() -> None:
    """Measurements and rejected experiments follow in an appendix."""
    found = []
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        decision = page.read_text(encoding="utf-8").partition("\n## Appendix")[0]
        if len(decision.splitlines()) > DECISION_LINES_MAX:
            found.append(f"{page.name}: {len(decision.splitlines())} lines")
    assert found == []


def test_each_room_says_what_it_is_and_what_to_read_first() -> None:
    found = []
    for room in sorted(path.parent for path in SOURCE.glob("*/__init__.py")):
        text = (
            ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
        )
        named = set(re.findall(r"[\w/]+\.py|\b\w+/", text))
        there = sorted(name for name in named if (room / name).exists())
        if len(there) < 3 or not 6 <= len(text.splitlines()) <= 40:
            found.append(f"{room.name}: {there}")
    assert found == []


def test_the_broker_has_no_import_cycle() -> None:
    """Not even one for types: a part can be read without the parts that use it."""
    graph = grimp.build_graph("ottla")
    imports = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
        if module.startswith("ottla.broker.")
    }
    cycle = set(imports)
    while loose := {
        module
        for module in cycle
        if not imports[module] & cycle or not any(module in imports[other] for other in cycle)
    }:
        cycle -= loose
    assert cycle == set()
