"""HTML and SVG written from values: the one door at which text is escaped."""

import json
from html import escape
from typing import Any

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Text that is markup already. Whatever else stands inside a tag is escaped."""

    __slots__ = ()


def _printable(text: str) -> str:
    """`text` with control characters shown as escapes: a log may hold anything."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """``<name ...>children</name>``. None among the children or attributes is left out; True is a bare attribute.

    ``class_`` gives ``class``; an underscore in a name becomes a hyphen.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(_printable(str(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inside = "".join(
        child if isinstance(child, Html) else escape(_printable(str(child)), quote=False)
        for child in children
        if child is not None
    )
    return Html(f"<{name}{given}>") if name in VOID else Html(f"<{name}{given}>{inside}</{name}>")


def join(*parts: Html | None) -> Html:
    """Markup after markup."""
    return Html("".join(part for part in parts if part is not None))


def json_block(value: Any, *, id: str) -> Html:
    """Data for the script, in a block that no browser runs. Nothing in it can end the block."""
    text = (
        json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    )
    return Html(f'<script type="application/json" id="{escape(id)}">{text}</script>')
