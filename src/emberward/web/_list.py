"""The list of runs, those that need a person first; and two runs beside each other."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from emberward.findings import PROGRAM
from emberward.report import (
    Html,
    RunFolder,
    RunRow,
    State,
    config_difference,
    duration_text,
    join,
    json_block,
    loss_text,
    read_lines,
    read_row,
    row_state,
    tag,
)
from emberward.web._columns import MAX_POINTS, Columns
from emberward.web._fragments import ICONS, table, tone_of, utc_text
from emberward.web._live_run import Facts
from emberward.web._page import STYLES, document

MAX_LISTED = 1000


def key_of(folder: RunFolder) -> str:
    """The name of a run in an address: says nothing of where it lies, and cannot be made to."""
    return hashlib.blake2b(str(folder.path.absolute()).encode(), digest_size=8).hexdigest()


def list_page(folders: Iterable[RunFolder], facts: Facts, *, now_unix: float, program: str = PROGRAM) -> str:
    """The page with all runs, those first that need a person. Reads the ends of each run's files."""
    found = []
    for folder in list(folders)[:MAX_LISTED]:
        row = read_row(folder)
        is_alone, said = facts(folder, now_unix) if row.outcome is None else (False, ())
        found.append((row_state(row, is_alone=is_alone or bool(said), now_unix=now_unix), row))
    newest: dict[str, float] = {}
    for _, row in found:
        newest[row.folder.name] = max(row.started_unix, newest.get(row.folder.name, row.started_unix))

    def needs_a_person(state: State, row: RunRow) -> bool:
        """Not one that is over after which its name was started again: somebody has taken it up."""
        return state.is_bad and not (state.is_over and row.started_unix < newest[row.folder.name])

    found.sort(key=lambda pair: (not needs_a_person(*pair), pair[0].is_over, -pair[1].started_unix))
    head = join(*(tag("link", rel="stylesheet", href=f"asset/{name.rpartition('/')[2]}") for name in STYLES))
    counts = {state: sum(1 for each, _ in found if each is state) for state in State}
    said_counts = ", ".join(f"{number} {state.value}" for state, number in counts.items() if number)
    rows = [_row(state, row, now_unix=now_unix) for state, row in found]
    header = ["", "state", "run", "step", "loss", "started", "attempts", "why"]
    body = join(
        tag("header", tag("div", tag("h1", "Runs"), class_="title"),
            tag("p", said_counts or "no runs", class_="facts")),
        tag("main", tag("form",
            table(header, rows, label="runs", empty=f"No run was started here yet: {program} train bloom_tiny"),
            tag("p", tag("button", "compare the two chosen runs")) if len(rows) > 1 else None,
            action="compare", method="get", class_="panel runs")),
    )  # fmt: skip
    num_bad = sum(needs_a_person(*pair) for pair in found)
    return document(f"{num_bad} of {len(found)} runs need you", body, head=head)


def _row(state: State, row: RunRow, *, now_unix: float) -> list[object]:
    key = key_of(row.folder)
    name = f"{row.folder.name}/{row.folder.id}"
    step = "" if row.step is None else f"{row.step:,}" + ("" if row.steps is None else f" of {row.steps:,}")
    return [
        tag("td", tag("input", type="checkbox", name="run", value=key, aria_label=f"compare {name}")),
        tag(
            "td", tag("span", ICONS[state], class_="icon", aria_hidden="true"), f" {state.value}", class_=tone_of(state)
        ),
        tag("td", tag("a", name, href=f"run/{key}/")),
        step,
        loss_text(row.loss, is_bad=row.has_bad_loss, unknown=""),
        tag("td", f"{duration_text(now_unix - row.started_unix)} ago", title=utc_text(row.started_unix)),
        row.num_attempts,
        row.why_in(state),
    ]


def compare_page(first: RunFolder, first_columns: Columns, second: RunFolder, second_columns: Columns) -> str:
    """Two runs: curves over each other, what their configurations differ in, and where their losses part."""
    names = [f"{each.name}/{each.id}" for each in (first, second)]
    parted = first_difference(first_columns, second_columns)
    words = "Every step that both have has the same loss, bit for bit."
    if parted is not None:
        words = f"The losses differ first at step {parted:,}."
    if not set(first_columns.steps) & set(second_columns.steps):
        words = "The two runs have no step in common."
    differences = [*config_difference(first, second), *version_difference(first, second)]
    boot = {
        "names": names,
        "series": [_with_axes(each) for each in (first_columns, second_columns)],
    }
    charts = [
        tag("figure", tag("figcaption", tag("strong", title)),
            tag("div", class_="chart", id=f"chart-{key}", tabindex="0", role="img", aria_label=f"{title} of both runs"),
            class_="panel chart-panel")
        for key, title in (("loss", "Loss"), ("grad_norm", "Gradient norm"), ("tokens_per_s", "Tokens/s"),
                           ("step_s", "Step time"))
    ]  # fmt: skip
    body = join(
        tag("header", tag("div", tag("h1", "Two runs"), class_="title"),
            tag("p", tag("a", "all runs", href="list"), " / ", " and ".join(names), class_="facts")),
        tag("main", tag("section", tag("p", words, class_="verdict"), _axis_choice(), class_="panel"),
            tag("div", *charts, class_="charts"),
            tag("section", tag("h2", "Configuration and versions"),
                table(["what", names[0], names[1]], [list(row) for row in differences], label="configuration",
                      empty="Configurations and versions are the same."), class_="panel")),
        json_block(boot, id="boot"),
    )  # fmt: skip
    scripts = ("uPlot.iife.min.js", "charts.js", "compare.js")
    head = join(
        *(tag("link", rel="stylesheet", href=f"asset/{name.rpartition('/')[2]}") for name in STYLES),
        *(tag("script", src=f"asset/{name}", defer=True) for name in scripts),
    )
    return document(f"{names[0]} and {names[1]}", body, head=head)


_AXES = {"step": "by step", "tokens": "by tokens trained", "hours": "by hours of training"}


def _axis_choice() -> Html:
    """Which measure of progress the curves stand over."""
    return tag(
        "fieldset",
        tag("legend", "Curves"),
        *(
            tag("label", tag("input", type="radio", name="axis", value=key, checked=key == "step" or None), " ", title)
            for key, title in _AXES.items()
        ),
        class_="choice",
    )


def _with_axes(columns: Columns) -> dict[str, Any]:
    """The reduced columns of a run, with the tokens and the hours that it had trained at each of their steps.

    Each step counts once, with the time of the attempt that was kept; pauses, saves and evaluations do not. A run
    without the rate or the time of a step has none of the axis that asks for it.
    """
    reduced = columns.reduced(points=MAX_POINTS)
    seconds = np.asarray(columns.values["step_s"], dtype=np.float64)
    tokens = seconds * np.asarray(columns.values["tokens_per_s"], dtype=np.float64)
    at = np.searchsorted(np.asarray(columns.steps, dtype=np.int64), reduced["step"])
    for name, each in (("tokens", tokens), ("hours", seconds / 3600)):
        known = np.isfinite(each)
        reduced[name] = np.cumsum(np.where(known, each, 0.0))[at].tolist() if known.any() else []
    return reduced


def first_difference(first: Columns, second: Columns) -> int | None:
    """The first step that both runs have and whose losses are not the same double; None when all are."""
    other = dict(zip(second.steps, second.values["loss"], strict=True))
    for step, loss in zip(first.steps, first.values["loss"], strict=True):
        # Not a number on both sides is the same.
        if step in other and loss != other[step] and not (loss != loss and other[step] != other[step]):
            return step
    return None


def version_difference(first: RunFolder, second: RunFolder) -> list[tuple[str, str, str]]:
    """The packages and the commit whose versions differ between the last attempts of two runs."""
    left, right = (_versions(each) for each in (first, second))
    keys = list(dict.fromkeys([*left, *right]))
    return [(key, left.get(key, "-"), right.get(key, "-")) for key in keys if left.get(key) != right.get(key)]


def _versions(folder: RunFolder) -> dict[str, str]:
    last: dict[str, Any] = {}
    for line in read_lines(folder.attempts):
        last = line if line.get("event") == "start" else last
    versions = last.get("versions")
    found = versions if isinstance(versions, dict) else {}
    shown = {f"version of {name}": str(version) for name, version in found.items()}
    return shown | ({"commit": str(last["commit"])} if last.get("commit") else {})
