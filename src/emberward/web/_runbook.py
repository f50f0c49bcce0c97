"""A finding code's section of the runbook, as a page. The runbook is ``docs/findings.md``, which the wheel carries.

[Note: heads of a runbook page]
A section of the runbook is short prose. A page has it under the heads by which people look for it at night: Meaning,
Impact, Diagnosis, Mitigation, Looks alike, Replay. The first words of a paragraph decide; what a section lacks has no
head. The impact is that of the finding's kind.
"""

import re
from functools import cache
from html import escape
from pathlib import Path

from emberward.findings import CATALOGUE, Kind
from emberward.report import Html, join, tag

PLACES = (Path(__file__).parent / "findings.md", Path(__file__).parents[3] / "docs" / "findings.md")
"""In a wheel, and in a checkout."""
HEADS = ("Meaning", "Impact", "Diagnosis", "Mitigation", "Looks alike", "Replay")
_BEGINS = {
    "**Do:**": "Mitigation",
    "**Looks alike:**": "Looks alike",
    "**Replay:**": "Replay",
    "Likely causes": "Diagnosis",
}
_STILL = "The ranks that wait do not train. If the job is ended, what was done since the last save is done again."
_SLOW = "The job goes on, at the share of its speed that the finding says. No result is wrong."
IMPACT = {
    Kind.DEADLOCK: _STILL,
    Kind.MISMATCH: "The call stands still, fails, or mixes different values: results since then are not to be trusted.",
    Kind.MISSING: _STILL,
    Kind.CRASH: "The attempt ends with it. What was done since the last save must be done again.",
    Kind.HANG: _STILL,
    Kind.STRAGGLER: _SLOW,
    Kind.SLOWDOWN: _SLOW,
    Kind.LINK: "Calls over that link are slow, or end by a time-out and take the attempt with them.",
    Kind.DEVICE: "Jobs on that device die, are slow, or compute wrong values; other devices are sound.",
    Kind.DRIFT: "Copies of one value are not equal any more: the run goes on, and its result is not to be trusted.",
    Kind.SPIKE: "Steps were skipped or the loss jumped. The run goes on; whether it recovers is not certain.",
    Kind.ORDER_HAZARD: "It works by luck of timing: another machine or version may hang or compute wrong values.",
    Kind.EDGE: "A value is used that was never made, or made and never used: the run goes on with a wrong result.",
    Kind.RESOURCE: "What the finding names cannot be read, written or watched; the job goes on unless it says so.",
    Kind.CONFIG: "Nothing starts, or what was asked for is not done, until it is corrected. Nothing is lost.",
    Kind.STALL: _SLOW,
    Kind.EXPOSED: _SLOW,
    Kind.WASTE: _SLOW,
}
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]+\)")


@cache
def _sections() -> dict[str, str]:
    text = next((place.read_text(encoding="utf-8") for place in PLACES if place.is_file()), "")
    found = re.split(r"^### ([A-Z]\d{3}): .*$", text, flags=re.MULTILINE)
    # A section ends at the next heading of a higher level.
    return {code: body.split("\n## ")[0].strip() for code, body in zip(found[1::2], found[2::2], strict=True)}


def runbook_text(code: str) -> str | None:
    """The section of a code as Markdown under its heads; None without one. See [Note: heads of a runbook page]."""
    entry, body = CATALOGUE.get(code), _sections().get(code)
    if entry is None or body is None:
        return None
    under: dict[str, list[str]] = {head: [] for head in HEADS}
    here = "Meaning"
    for block in re.split(r"\n\s*\n(?! |- |\|)", body):
        start = next((start for start in _BEGINS if block.startswith(start)), None)
        here = here if start is None else _BEGINS[start]
        bare = block if start is None or not start.startswith("**") else block.removeprefix(start).strip()
        under[here].append(bare[:1].upper() + bare[1:])
    if entry.kind in IMPACT:
        under["Impact"].append(IMPACT[entry.kind])
    return "\n\n".join(f"## {head}\n\n" + "\n\n".join(blocks) for head, blocks in under.items() if blocks)


def runbook_part(code: str) -> Html | None:
    """The runbook page of a code; None for a code that the catalogue does not have."""
    entry = CATALOGUE.get(code)
    if entry is None:
        return None
    body = runbook_text(code)
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
            blocks.append(tag("h2", block.lstrip("# ")))
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
