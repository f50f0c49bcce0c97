"""A finding code's section of the runbook, as a page. The runbook is ``docs/findings.md``, which the wheel carries."""

import re
from functools import cache
from html import escape
from pathlib import Path

from emberward.findings import CATALOGUE
from emberward.report import Html, join, tag

PLACES = (Path(__file__).parent / "findings.md", Path(__file__).parents[3] / "docs" / "findings.md")
"""In a wheel, and in a checkout."""
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]+\)")


@cache
def _sections() -> dict[str, str]:
    text = next((place.read_text(encoding="utf-8") for place in PLACES if place.is_file()), "")
    found = re.split(r"^### ([A-Z]\d{3}): .*$", text, flags=re.MULTILINE)
    # A section ends at the next heading of a higher level.
    return {code: body.split("\n## ")[0].strip() for code, body in zip(found[1::2], found[2::2], strict=True)}


def runbook_part(code: str) -> Html | None:
    """The runbook section of a code; None for a code that the catalogue does not have."""
    entry = CATALOGUE.get(code)
    if entry is None:
        return None
    body = _sections().get(code)
    text = tag("p", "The runbook is not installed with this copy.", class_="empty") if body is None else _blocks(body)
    return join(tag("h1", f"{code}: {entry.title}"), text)


def _blocks(text: str) -> Html:
    """Paragraphs, lists, tables and code of the little Markdown that the runbook uses."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if block.startswith(("```", "|", "    ")):
            blocks.append(tag("pre", block.strip("`\n"), tabindex="0"))
        elif all(line.startswith(("- ", "  ")) for line in lines) and lines:
            items = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
            blocks.append(tag("ul", *(tag("li", _inline(" ".join(item.split()))) for item in items)))
        elif block.startswith("#"):
            blocks.append(tag("h3", block.lstrip("# ")))
        else:
            blocks.append(tag("p", _inline(" ".join(lines))))
    return join(*blocks)


def _inline(text: str) -> Html:
    out, place = [], 0
    for found in _INLINE.finditer(text):
        out.append(escape(text[place : found.start()], quote=False))
        code, bold, link = found.groups()
        out.append(tag("code", code) if code else tag("strong", bold) if bold else escape(link, quote=False))
        place = found.end()
    return Html("".join([*out, escape(text[place:], quote=False)]))
