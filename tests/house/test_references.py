"""Codes, notes, links and commands that pages and docstrings name."""

import ast
import functools
import re
from pathlib import Path

import pytest
import typer

from emberward.cli import app_of
from emberward.findings import CATALOGUE
from house.tree import ROOT, pages, room_of, sources, tracked, tree_of

NOTE = re.compile(r"\[Note:\s+([^\]]+)\]", re.ASCII)
LETTERS = "".join(sorted({code[0] for code in CATALOGUE}))
CODE = re.compile(rf"\"([{LETTERS}]\d{{3}})\"")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"")
NEXT = ("next", "next_step")
HOMES = ("work", "opt", "home", "Users")
PLACEHOLDERS = re.compile("/" + "opt/(?:train/)?(?:venv|python)/|/" + "home/(?:user|lena|mira)/")
MACHINE = re.compile("|".join(rf"(?<![\w.~])/{part}/" for part in HOMES))


# -- finding codes ---------------------------------------------------------------------------------------------------


@functools.cache
def code_sections() -> dict[str, str]:
    """The sections of docs/findings.md by code."""
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ([A-Z]\d{3}): (.*)$", text, flags=re.MULTILINE)
    return {code: f"{title}\n{body}" for code, title, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)}


@functools.cache
def all_tests() -> str:
    """The text of every test."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_a_code_has_its_runbook_section_and_is_used(code):
    section = code_sections()[code]
    assert section.startswith(CATALOGUE[code].title + "\n"), "the section's title is the catalogue's"
    assert "**Do:**" in section, "a runbook says what to do"
    used = [name for name, text in sources().items() if f'"{code}"' in text and name != "findings/_catalogue.py"]
    assert used or code in all_tests(), f"{code} is in the catalogue and nowhere else"


def test_no_section_is_left_of_a_code_that_is_gone():
    assert set(code_sections()) <= set(CATALOGUE)


def test_every_code_in_the_sources_is_in_the_catalogue():
    # Not perf: an H100 is a device there.
    named = {(code, name) for name, text in sources().items() if room_of(name) != "perf" for code in CODE.findall(text)}
    assert sorted((code, name) for code, name in named if code not in CATALOGUE) == []


# -- notes -----------------------------------------------------------------------------------------------------------


def notes(text: str) -> tuple[list[str], list[str]]:
    """Names of the notes that `text` defines, and of those that it refers to.

    A definition begins its line and is not the end of a sentence that began on the line above.
    """
    defined, named = [], []
    for match in NOTE.finditer(text):
        name = re.sub(r"\s+", " ", match[1])
        before, after = text[: match.start()], text[match.end() :]
        line = before.rpartition("\n")[2].strip(' #\t"')
        wraps = re.search(r"(?:[Ss]ee|of|and|`|\()\s*(?:#\s*)?$", before) is not None
        is_definition = not line and not wraps and re.match(r"[.,;)]", after) is None
        (defined if is_definition else named).append(name)
    return defined, named


def test_every_note_that_is_named_is_written_once():
    defined: dict[str, list[str]] = {}
    named: dict[str, list[str]] = {}
    for file, text in sources().items():
        here, there = notes(text)
        for name in here:
            defined.setdefault(name, []).append(file)
        for name in there:
            named.setdefault(name, []).append(file)
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}
    assert {name: files for name, files in named.items() if name not in defined} == {}


def test_a_reference_is_told_from_a_definition():
    assert notes('"""Title.\n\n[Note: a]\nText."""') == (["a"], [])
    assert notes("x  # See [Note: a].\n") == ([], ["a"])
    assert notes("    what it does. See\n    [Note: a\n    b].\n") == ([], ["a b"])


# -- links -----------------------------------------------------------------------------------------------------------


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def broken_links(page: Path) -> list[str]:
    """Links of `page` to files or headings that are not there."""
    found = []
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in (one or other for one, other in LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path) if path else page
        if not to.exists() or (anchor and anchor not in headings(to)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One Two\n[a](page.md#one-two) [b](page.md#three) [c](gone.md)\n")
    assert broken_links(page) == ["page.md#three", "gone.md"]


# -- commands --------------------------------------------------------------------------------------------------------


def code_lines(page: Path) -> list[str]:
    """What a page shows as code: indented and fenced lines, and the text between backticks."""
    found, fenced = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            found.append(line.strip())
        else:
            found += re.findall(r"`([^`]+)`", line)
    return found


@functools.cache
def program():
    """The program's verbs and options, which take a while to put together."""
    return typer.main.get_command(app_of(None))


def wrong_commands(lines: list[str]) -> list[str]:
    """Lines that begin with ``emberward`` and name a verb or an option that the program lacks."""
    root, found = program(), []
    for line in lines:
        match = re.match(r"(?:\$ )?(?:\.venv/bin/)?emberward((?: +\S+)+)", line)
        if match is None:
            continue
        words, command = match[1].split(), root
        while words and hasattr(command, "commands") and not words[0].startswith("-"):
            if not re.fullmatch(r"[a-z]+", words[0]):
                break
            command = command.commands.get(words[0])
            if command is None:
                found.append(line)
                break
            words = words[1:]
        if command is None:
            continue
        known = {option for param in command.params for option in param.opts} | {"--help"}
        takes_any = (command.context_settings or {}).get("ignore_unknown_options", False)
        for word in words:
            if word == "--":
                # What follows is a command of its own.
                break
            if not word.startswith("--"):
                continue
            option = word.split("=")[0].rstrip(",.)")
            is_key = takes_any and "." in option
            if option not in known and not is_key:
                found.append(line)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page):
    assert wrong_commands(code_lines(page)) == []


def unknown_next_verbs(tree: ast.Module) -> list[str]:
    """What the ``next`` of a source's messages tells a person to type and the program lacks."""
    known = program().commands
    nexts = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in NEXT]
    literals = [node.value for value in nexts for node in ast.walk(value) if isinstance(node, ast.Constant)]
    verbs = [verb for each in literals for verb in re.findall(r"\bemberward ([a-z]+)", str(each))]
    return [verb for verb in verbs if verb not in known]


def test_commands_of_messages_exist():
    assert [(name, verb) for name in sources() for verb in unknown_next_verbs(tree_of(name))] == []


def test_an_unknown_verb_of_a_message_is_seen_and_a_known_one_is_not():
    young = ast.parse('f(next=f"emberward teleport {x}", what="emberward is young")')
    assert unknown_next_verbs(young) == ["teleport"]
    assert unknown_next_verbs(ast.parse('f(next=f"emberward checkpoint verify {path}")')) == []


def test_make_targets_of_pages_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for page in pages():
        for line in code_lines(page):
            for target in re.findall(r"^(?:\$ )?make ([a-z-]+)", line):
                assert target in targets, f"{page.name}: make {target}"


def test_a_wrong_command_is_seen_and_its_look_alike_is_not():
    right = ["emberward train bloom_tiny --ranks 2 --optim.lr 1e-3", "emberward checkpoint ls runs", "emberward"]
    assert wrong_commands(right) == []
    wrong = ["emberward trian bloom_tiny", "emberward train x --rank 2", "emberward checkpoint lst runs"]
    assert wrong_commands(wrong) == wrong


# -- what is in the repository ---------------------------------------------------------------------------------------


def test_no_file_names_a_path_of_one_machine():
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if not any(f"/{part}/" in text for part in HOMES):
            continue  # the expression takes a hundred times as long
        # Stacks of frozen sets need whole paths: their authors replaced the machine's by these.
        text = PLACEHOLDERS.sub("", text) if path.is_relative_to(ROOT / "tests" / "unseen") else text
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE.finditer(text)]
    assert found == []


def test_a_machine_s_path_is_seen():
    assert MACHINE.search("at /" + "work/run") and MACHINE.search("=/" + "opt/x")
    assert not MACHINE.search("src/" + "work/run") and not MACHINE.search("https://a.b/" + "home/x")
