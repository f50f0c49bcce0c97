"""Builds the docs as a site, offline: the pages of docs/, a page for each finding code, references made from the code.

    .venv/bin/python tools/docs_site.py [--to build/site]

The pages are plain Markdown and stay whole without it. MkDocs turns them into a site with a search, and refuses a link
that leads nowhere. What is generated: ``codes/`` from the catalogue and docs/findings.md, ``reference/commands.md``
from the program's own help, ``reference/python.md`` from docstrings, ``notebook.md`` from docs/notebook.ipynb.
"""

import argparse
import inspect
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import typer

import emberward
from emberward.cli import app_of
from emberward.findings import CATALOGUE
from emberward.web import runbook_text

ROOT = Path(__file__).resolve().parents[1]
NAV: list[Any] = [
    {"Start": ["index.md", "start.md", "symptoms.md", "training.md", "run.md", "python-api.md", "notebook.md"]},
    {"Before the launch": ["check.md", "preflight.md", "schedules.md", "configuration.md", "data.md"]},
    {"While it runs": ["window.md", "hangs.md", "health.md", "recorder.md", "certificate.md", "debug.md",
                       "operations.md"]},
    {"After it stopped": ["explain.md", "incidents.md", "runs.md", "doctor.md", "profile.md"]},
    {"Saves": ["checkpoints.md", "convert.md", "randomness.md"]},
    {"Many machines": ["slurm.md", "boxing.md", "lanes.md", "speed.md"]},
    {"Reference": ["reference/commands.md", "reference/python.md", "findings.md", "codes/index.md"]},
    {"How it works": ["architecture.md", "glossary.md", "match.md", "add_a_family.md", "measured/README.md",
                      "status.md", "CHANGELOG.md", "CONTRIBUTING.md"]},
]  # fmt: skip
EXIT_CODES = (
    "`--json` prints one JSON document on standard output. Exit codes: 0 done and clean, 1 an error was found, 2 usage "
    "or configuration, 3 our own bug, 75 saved and asks to be started again, 130 saved after Ctrl-C.\n"
)
_LINK = re.compile(r"(\]\(|src=\")([^)\s\"]+)")


def code_pages() -> dict[str, str]:
    """A page for each finding code, and their index, by path."""
    pages = {}
    for code, entry in sorted(CATALOGUE.items()):
        body = _LINK.sub(lambda found: found[1] + _up(found[2]), runbook_text(code) or "")
        pages[f"codes/{code}.md"] = (
            f"# {code}: {entry.title}\n\nKind: {entry.kind.value}. How to read a finding: "
            f"[findings](../findings.md#how-to-read-a-finding). All codes: [index](index.md).\n\n{body}\n"
        )
    rows = "".join(
        f"| [{code}]({code}.md) | {entry.title} | {entry.kind.value} |\n" for code, entry in sorted(CATALOGUE.items())
    )
    pages["codes/index.md"] = f"# All finding codes\n\n| code | title | kind |\n|---|---|---|\n{rows}"
    return pages


def _up(target: str) -> str:
    """A link of docs/findings.md, as a page of ``codes/`` has it."""
    if re.match(r"[a-z]+:", target):
        return target
    return f"../findings.md{target}" if target.startswith("#") else f"../{target}"


def command_page() -> str:
    """Every verb with its options, as ``--help`` has them."""
    root = typer.main.get_command(app_of(None))
    lines = ["# Commands\n", EXIT_CODES]
    for words, command in _verbs("emberward", root):
        context = click.Context(command, info_name=words, terminal_width=100, max_content_width=100)
        lines += [f"## `{words}`\n", "```text", command.get_help(context).strip(), "```\n"]
    return "\n".join(lines)


def _verbs(words: str, command: Any) -> list[tuple[str, Any]]:
    own = [(words, command)]
    for name, verb in getattr(command, "commands", {}).items():
        own += _verbs(f"{words} {name}", verb)
    return own


def python_page() -> str:
    """The public names with their signatures and docstrings."""
    lines = ["# Python\n", "What `import emberward` gives. [From Python](../python-api.md) says how to use it.\n"]
    for name in sorted(vars(emberward)["__all__"]):
        value = getattr(emberward, name)
        if isinstance(value, str):
            continue
        lines += [f"## `{name}`\n", _described(name, value)]
        if inspect.isclass(value):
            for key, member in vars(value).items():
                about = member.fget if isinstance(member, property) else member
                if not key.startswith("_") and callable(about):
                    lines += [f"### `{name}.{key}`\n", _described(key, about, is_property=isinstance(member, property))]
    return "\n".join(lines)


def _described(name: str, value: Any, *, is_property: bool = False) -> str:
    text = inspect.getdoc(value) or ""
    if is_property or inspect.ismodule(value):
        return f"{text}\n"
    return f"```python\n{name}{inspect.signature(value)}\n```\n\n{text}\n"


def notebook_page() -> str:
    """The worked notebook as a page."""
    book = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    parts = []
    for cell in book["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def assemble(to: Path) -> None:
    """Writes everything that the site is made of into the folder `to`, which is emptied first."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ROOT / "docs", to, ignore=shutil.ignore_patterns("*.json", "*.jsonl", "*.ipynb"))
    outside = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
    pages = code_pages() | {
        "reference/commands.md": command_page(),
        "reference/python.md": python_page(),
        "notebook.md": notebook_page(),
    }
    for name, text in pages.items():
        (to / name).parent.mkdir(exist_ok=True)
        (to / name).write_text(text, encoding="utf-8")
    for page in [*(ROOT / name for name in outside), *(ROOT / "docs").rglob("*.md")]:
        inside = outside.get(page.name) if page.parent == ROOT else str(page.relative_to(ROOT / "docs"))
        assert inside is not None
        text = _LINK.sub(partial(_link_of, page, outside), page.read_text("utf-8"))
        (to / inside).write_text(text, encoding="utf-8")
        for name in re.findall(r"\]\((?:\.\./)*source/([^)#\s]+)", text):
            (to / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / "source" / name)


def _link_of(page: Path, outside: dict[str, str], found: re.Match[str]) -> str:
    return found[1] + _moved(found[2], page, outside)


def _moved(target: str, page: Path, outside: dict[str, str]) -> str:
    """A link of a page of the repository, as the site has it: a file that is no page lies below ``source/``."""
    if re.match(r"[a-z]+:|#", target):
        return target
    path, mark, anchor = target.partition("#")
    to = (page.parent / path).resolve().relative_to(ROOT)
    depth = 0 if page.parent == ROOT else len(page.parent.relative_to(ROOT / "docs").parts)
    if to.parent == Path() and to.name in outside:
        return "../" * depth + outside[to.name] + mark + anchor
    if to.parts[0] == "docs" and to.suffix in (".md", ".svg", ".png", ".ipynb"):
        name = str(to.relative_to("docs")).replace("notebook.ipynb", "notebook.md")
        return "../" * depth + name + mark + anchor
    return "../" * depth + f"source/{to}"


def build(pages: Path, to: Path) -> int:
    """Builds the site of assembled pages; MkDocs' exit code. A link that leads nowhere is an error."""
    config = {
        "site_name": "Emberward",
        "docs_dir": str(pages.resolve()),
        "site_dir": str(to.resolve()),
        "theme": {"name": "readthedocs", "highlightjs": False},
        "use_directory_urls": False,
        "markdown_extensions": ["tables", "fenced_code", "sane_lists", {"toc": {"permalink": True}}],
        "validation": {"omitted_files": "ignore", "not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
        "nav": NAV,
    }
    file = pages.with_suffix(".yml")
    file.write_text(json.dumps(config), encoding="utf-8")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(file),
    ]
    return subprocess.run(command, check=False, timeout=300).returncode


def main() -> int:
    """Assembles and builds; 0 when every page and link is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site")
    to = parser.parse_args().to
    pages = to.with_name(to.name + "-pages")
    assemble(pages)
    code = build(pages, to)
    if code == 0:
        print(f"the docs are in {to}/index.html", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
