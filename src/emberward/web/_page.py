"""The whole page of a run: served with its script beside it, or as one file that carries everything.

[Note: one page]
All words are written here as markup, so the page reads without its script, which only swaps parts that changed and
draws the charts. The file's policy allows no request and no script but its own, by their hashes.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from emberward.report import SHAPES_STYLE, Glance, Html, join, json_block, read_lines, tag
from emberward.web._columns import Columns
from emberward.web._drawer import drawer_part
from emberward.web._fragments import fragments
from emberward.web._lag import has_lag, lag_json, lag_sentence
from emberward.web._mesh import rank_states
from emberward.web._pictures import examined_part, preflight_part
from emberward.web._strip import marks_of

HERE = Path(__file__).parent
SCRIPTS = ("vendor/uplot/uPlot.iife.min.js", "static/charts.js", "static/app.js")
PICTURES = "pictures.css"
"""Not a file: `report` has the style of its pictures."""
STYLES = ("vendor/uplot/uPlot.min.css", "static/app.css", PICTURES)
MAX_DRAWERS = 16
"""Ranks whose drawer a file carries: those that a finding names, the worst first, then the first ranks."""
FILE_POINTS = 1200
CHARTS = (
    ("loss", "Loss", "nats a unit; a red tick: not finite"),
    ("grad", "Gradient norm", "before clipping"),
    ("rate", "Throughput", "tokens a second; band: median and 3 median absolute deviations"),
    ("time", "Step time by phase", "seconds, as the host of the rank that writes the metrics spent them"),
)


@cache
def asset(name: str) -> str:
    """One of our own files, read once."""
    if name == PICTURES:
        return SHAPES_STYLE
    return (HERE / name).read_text(encoding="utf-8")


def boot_of(glance: Glance, columns: Columns | None) -> dict[str, Any]:
    """What the script starts from. Without `columns` it asks the server for series and lag."""
    marks = marks_of(glance)
    return {
        "live": columns is None,
        "now": glance.now_unix,
        "series": None if columns is None else columns.reduced(points=FILE_POINTS),
        "evals": eval_points(glance),
        "marks": {
            "restarts": marks.restarts,
            "saves": marks.saves,
            "incidents": marks.incidents,
            "lost": marks.lost,
        },
        "lag": None if columns is None else lag_json(glance.folder),
    }


def eval_points(glance: Glance) -> dict[str, list[list[float]]]:
    """Step and loss of each evaluation set, at most 2000 points each."""
    sets: dict[str, list[list[float]]] = {}
    for line in read_lines(glance.folder.evals):
        step, found = line.get("step"), line.get("sets")
        if not isinstance(step, int) or not isinstance(found, dict):
            continue
        for name, values in found.items():
            loss = values.get("loss") if isinstance(values, dict) else None
            if isinstance(loss, int | float):
                sets.setdefault(str(name), []).append([step, float(f"{loss:.7g}")])
    return {name: points[-2000:] for name, points in list(sets.items())[:8]}


def body_of(glance: Glance, parts: Mapping[str, Html], *, is_live: bool) -> Html:
    """The page's body without scripts."""
    name = f"{glance.folder.name} / {glance.folder.id}"

    def part(key: str) -> Html:
        return tag("div", parts[key], id=f"part-{key}")

    def section(title: str, key: str, *children: Html) -> Html:
        return tag("section", tag("h2", title, id=f"{key}-title"), *children, class_="panel", id=key,
                   aria_labelledby=f"{key}-title")  # fmt: skip

    charts = [
        tag(
            "figure",
            tag("figcaption", tag("strong", title), tag("span", words, class_="note")),
            tag("div", class_="chart", id=f"chart-{key}", tabindex="0", role="img", aria_label=f"{title} by step"),
            tag("p", class_="reading", id=f"reading-{key}", aria_live="off"),
            class_="panel chart-panel",
        )
        for key, title, text in CHARTS
        for words in [f"the program's own log: {glance.logged}" if key == "loss" and glance.logged else text]
    ]
    return join(
        tag("a", "skip to the incident", href="#part-card", class_="skip"),
        _header(name, part("head"), file_name=f"{glance.folder.name}-{glance.folder.id}.html" if is_live else None),
        tag(
            "main",
            part("tiles"),
            part("card"),
            section("The run", "strip", part("strip"),
                    tag("p", tag("span", "drag over a chart or the strip to choose steps", id="range", class_="note"),
                        tag("button", "whole run", type="button", id="whole", hidden=True), class_="range")),
            tag("div", *charts, class_="charts"),
            tag("div",
                section("Who is waited for", "lag", tag("div", lag_words(glance, is_live=is_live), id="lag-words"),
                        tag("div", id="lag-map", tabindex="0", role="img",
                            aria_label="lag by rank and step; the sentence above says what it shows")),
                section("Ranks", "mesh", part("mesh")),
                class_="two"),
            section("Findings", "findings", part("findings")),
            section("Attempts", "attempts", part("attempts")),
            section("Saves", "saves", part("saves")),
            section("Pre-flight", "preflight", preflight_part(glance.folder)),
            section("Profile and examination", "examined", examined_part(glance.folder)),
            section("Configuration", "config", config_part(glance)),
        ),
        tag("aside", tag("button", "close", type="button", id="close"), tag("div", id="drawer-body"), id="drawer",
            hidden=True, aria_label="rank"),
        tag("dialog", tag("h2", "Keys"),
            tag("dl", *(tag("div", tag("dt", key), tag("dd", what)) for key, what in KEYS)),
            tag("form", tag("button", "close"), method="dialog"), id="keys"),
    )  # fmt: skip


def _header(name: str, head: Html, *, file_name: str | None) -> Html:
    """The run's name, what can be done with the page, and the part `head`. `file_name`: of the file of a live page."""
    save = (
        None if file_name is None else tag("a", "save as a file", href="page.html", class_="button", download=file_name)
    )
    return tag(
        "header",
        tag("div",
            None if file_name is None else tag("a", "all runs", href="../../list", class_="up"),
            tag("h1", name),
            tag("p", id="link", class_="link", role="status"),
            tag("span", tag("button", "dark or light", type="button", id="theme"), save,
                tag("button", "?", type="button", id="help", aria_label="keys"), class_="acts"),
            class_="title"),
        head,
    )  # fmt: skip


KEYS = (
    ("j, k", "next and last finding"),
    ("r", "first rank that a finding names, else rank 0"),
    ("0", "the whole run in all charts"),
    ("← →", "move the cursor of the chart that has the focus"),
    ("t", "dark or light"),
    ("Escape", "close the drawer"),
)


def lag_words(glance: Glance, *, is_live: bool) -> Html:
    """What the heat-map shows, in a sentence; a live page gets it with the map: the card does not wait for it."""
    is_later = is_live and has_lag(glance.folder)
    return tag("p", "Comparing the ranks." if is_later else lag_sentence(glance.folder), class_="note")


def config_part(glance: Glance) -> Html:
    """The resolved recipe with the origin of each value, or what ``emberward run`` started."""
    for path in (glance.folder.config, glance.folder.command):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")[: 256 * 1024]
        except OSError:
            continue
        return tag("details", tag("summary", path.name), tag("pre", text, tabindex="0", aria_label=path.name))
    return tag("p", "No configuration was written.", class_="empty")


def document(title: str, body: Html, *, head: Html, state: str = "") -> str:
    """A whole HTML document."""
    charset = tag("meta", charset="utf-8")
    viewport = tag("meta", name="viewport", content="width=device-width, initial-scale=1")
    whole = tag("html", tag("head", charset, head, viewport, tag("title", title)), tag("body", body, data_state=state),
                lang="en")  # fmt: skip
    return f"<!doctype html>{whole}"


def title_of(glance: Glance) -> str:
    """The window's title: the state comes first, for a row of tabs."""
    return f"{glance.state.value}: {glance.folder.name} {glance.folder.id}"


def live_page(glance: Glance) -> str:
    """The page that our server serves; it is live from there on. Its script asks for the series: the card is first."""
    parts = fragments(glance)
    head = join(
        *(tag("link", rel="stylesheet", href=f"../../asset/{name.rpartition('/')[2]}") for name in STYLES),
        *(tag("script", src=f"../../asset/{name.rpartition('/')[2]}", defer=True) for name in SCRIPTS),
    )
    boot = json_block(boot_of(glance, None), id="boot")
    return document(title_of(glance), join(body_of(glance, parts, is_live=True), boot), head=head, state="live")


def file_page(glance: Glance, columns: Columns) -> str:
    """The page as one file: no request, no script but its own. See [Note: one page]."""
    parts = fragments(glance, runbooks=False)
    script = Html("\n".join(asset(name) for name in SCRIPTS).replace("</script", "<\\/script"))
    style = Html("\n".join(asset(name) for name in STYLES))
    policy = file_policy(script, style)
    states = rank_states(glance)
    order = sorted(
        states, key=lambda rank: (("named", "dead", "late", "waits", "unknown", "ok").index(states[rank]), rank)
    )
    drawers = {str(rank): drawer_part(glance, rank) for rank in order[:MAX_DRAWERS]}
    boot = {**boot_of(glance, columns), "drawers": drawers}
    head = join(Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'), tag("style", style))
    body = join(body_of(glance, parts, is_live=False), json_block(boot, id="boot"), tag("script", script))
    return document(title_of(glance), body, head=head, state="file")


def file_policy(script: str, style: str) -> str:
    """The content security policy of a file: its own script and style by their hashes, and no request."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
