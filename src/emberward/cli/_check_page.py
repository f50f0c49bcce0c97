"""``emberward check --html``: what the check found, as one file with pictures."""

import json
from pathlib import Path
from typing import Any

from emberward.cli._console import Screen
from emberward.web import proof_page

MAX_SOURCE_BYTES = 4 << 20


def write_check_page(title: str, to: Path, screen: Screen) -> None:
    """Writes the page of the check whose document `screen` wrote last. Raises OSError when it cannot be written."""
    # As its readers get it: a page of what is in the contract, and of nothing else.
    checked = json.loads(json.dumps(screen.written))
    text = proof_page(title, checked, lines=lines_at(checked))
    to.write_text(text, encoding="utf-8")
    say = screen.complain if screen.is_json else screen.say
    say(f"wrote {to}: {len(text.encode()) / 1e6:.2f} MB; it opens in a browser, without a server")


def lines_at(checked: dict[str, Any]) -> dict[str, str]:
    """The code at each site that a finding of a check names, where its file is here and is Python."""
    sites = {finding["site"] for finding in checked["findings"]}
    sites |= {member["site"] for finding in checked["findings"] for member in finding["cycle"] or ()}
    found = {}
    for site in sorted(each for each in sites if each is not None):
        name, _, number = site.rpartition(":")
        path = Path(name)
        try:
            if path.suffix == ".py" and number.isdecimal() and path.stat().st_size <= MAX_SOURCE_BYTES:
                found[site] = path.read_text(encoding="utf-8", errors="replace").splitlines()[int(number) - 1].strip()
        except (OSError, IndexError):
            continue
    return found
